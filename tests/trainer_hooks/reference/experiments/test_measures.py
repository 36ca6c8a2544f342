"""Measures of a recorded run: the collapse, phase II, and whether the run stayed healthy."""

import gzip
import json
import math

import pytest

from trainer_hooks.reference.experiments.measures import (
    accelerating_stretch,
    collapse_step,
    drift,
    smooth,
    stayed_healthy,
)
from trainer_hooks.reference.experiments.tables.question_displacement import question_table
from trainer_hooks.reference.experiments.thirds import pool_by_third


def test_a_collapse_is_half_the_best_average_for_ten_steps():
    """Twenty steps at 0.6, then nothing: 0.6·0.8ⁿ is under 0.3 from n = 4 on (0.8⁴ = 0.41, 0.8³ = 0.512)."""
    assert collapse_step([0.6] * 20 + [0.0] * 20) == 24


def test_a_run_that_recovers_within_ten_steps_has_not_collapsed():
    """Nine steps under half the best are a dip."""
    # Under half from the 4th zero on; twelve zeros make nine such steps, then 0.6 lifts the average over 0.12 + …:
    # after 12 zeros the average is 0.6·0.8¹² = 0.041, one 4.0 gives 0.83.
    assert collapse_step([0.6] * 20 + [0.0] * 12 + [4.0] * 5) is None
    assert collapse_step([]) is None


def test_the_average_starts_at_the_first_reward_and_passes_over_what_is_absent():
    """0.5, then 0.8·0.5 + 0.2·1 = 0.6; NaN changes nothing, at the beginning neither."""
    assert smooth([0.5, 1.0]) == pytest.approx([0.5, 0.6])
    assert smooth([0.5, math.nan, 1.0]) == pytest.approx([0.5, 0.5, 0.6])
    assert smooth([math.nan, 0.5])[1] == 0.5


def test_a_healthy_run_ends_at_four_fifths_of_its_best_fifty_steps():
    """0.5 to the end is healthy; a sag from 0.5 to 0.39 is not (0.8·0.5 = 0.4), nor is a collapse."""
    assert stayed_healthy([0.2] * 50 + [0.5] * 100)
    assert stayed_healthy([0.5] * 100 + [0.41] * 100)
    assert not stayed_healthy([0.5] * 100 + [0.39] * 100)
    assert not stayed_healthy([0.5] * 100 + [0.0] * 100)


def run(likelihood, *, reward=0.5, gradient=0.4, displacement=-0.01, entropy=0.01, steps=100):
    return [
        {
            "step": at + 1,
            "reward/mean": reward(at) if callable(reward) else reward,
            "likelihood/correct": likelihood(at),
            "displacement/cross": displacement,
            "entropy/paired_delta": entropy,
            "grad/norm": gradient(at) if callable(gradient) else gradient,
        }
        for at in range(steps)
    ]


def falling(at):
    """Flat at −0.1 to step 40, then 0.004 a step for 40 steps, then flat."""
    return -0.1 - 0.004 * min(max(at - 40, 0), 40)


def test_a_slow_fall_of_correct_responses_under_a_held_reward_is_phase_two():
    """The longest stretch with the signs: from step 11, where looking begins, to the end; −0.16 nats, −0.9 summed."""
    found = drift(run(falling))
    assert (found.first_step, found.last_step) == (11, 100)
    assert found.steps == 90
    assert found.likelihood == pytest.approx(-0.16)
    assert found.displacement == pytest.approx(-0.9)
    assert found.entropy == pytest.approx(0.9)
    assert found.further_fall == 0.0
    assert math.isnan(found.surge)


@pytest.mark.parametrize(
    "changed",
    [
        {"likelihood": lambda _: -0.1},
        {"likelihood": falling, "displacement": 0.01},
        {"likelihood": falling, "entropy": -0.01},
        {"likelihood": falling, "reward": lambda at: 0.5 - 0.003 * at},
        {"likelihood": falling, "gradient": lambda at: 0.4 * 1.03**at},
    ],
    ids=["no fall", "not displaced", "entropy falls", "reward falls", "gradient grows"],
)
def test_phase_two_needs_all_of_its_signs(changed):
    """Phase II is absent where one sign is missing.

    A gradient that grows 3 % a step is out of the band after 14 steps.
    """
    assert drift(run(**changed)) is None


def test_what_comes_after_a_collapse_is_no_phase_two_and_the_surge_is_measured_after_it():
    """Reward dies at step 80, 24 steps in all count as before; the gradient is three times as high from step 75 on."""
    found = drift(
        run(falling, reward=lambda at: 0.5 if at < 80 else 0.0, gradient=lambda at: 0.4 if at < 75 else 1.2, steps=120)
    )
    assert found.last_step < 84
    assert found.surge == pytest.approx(3.0, rel=0.1)


def test_steps_without_a_correct_response_are_passed_over():
    """An absent likelihood or displacement is absent, not zero."""
    rows = run(falling)
    for row in rows[::7]:
        del row["likelihood/correct"], row["displacement/cross"]
    assert drift(rows).likelihood == pytest.approx(-0.16, abs=0.01)
    assert drift([]) is None


def test_what_is_pooled_stands_by_thirds_of_the_way_to_the_collapse():
    """Thirty steps and no collapse, a question a step: ten a third."""
    rows = [{"reward/mean": 0.5, "probe/by_question": [float(at)]} for at in range(30)]
    pooled = pool_by_third({0: rows}, "probe/by_question")
    assert {third: len(values) for third, values in pooled.items()} == {
        "early": 10,
        "middle": 10,
        "late": 10,
    }
    assert pooled["late"][0] == 20.0


def test_the_questions_that_fell_are_counted_by_thirds(tmp_path):
    """Nine steps, a question a step: all rise in the first third, one of three falls in the last."""
    changes = [0.1, 0.2, 0.3, 0.1, 0.2, 0.3, -0.5, 0.25, 0.75]
    rows = [{"reward/mean": 0.5, "probe/by_question": [change]} for change in changes]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "grpo-seed0.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    lines = question_table(tmp_path, ["grpo", "ppo"]).splitlines()
    assert lines[2] == "| grpo | early | 3 | +0.200 | 0% |"
    assert lines[4:] == ["| grpo | late | 3 | +0.250 | 33% |"]


def test_accelerating_displacement_is_found_block_by_block():
    """Blocks of ten at 0.01, −0.01, −0.02, −0.03, −0.01: ε ≤ 0 falls in blocks two to four."""
    levels = [0.01, -0.01, -0.02, -0.03, -0.01]
    rows = [{"reward/mean": 0.5, "displacement/cross": level} for level in levels for _ in range(10)]
    found = accelerating_stretch(rows)
    assert found is not None
    assert (found.first_step, found.last_step) == (11, 40)
    assert (found.first, found.last) == pytest.approx((-0.01, -0.03))


def test_a_displacement_that_does_not_accelerate_has_no_stretch():
    """Constant, rising and positive displacement, and two blocks alone, are none."""
    for levels in ([-0.01] * 5, [-0.03, -0.02, -0.01], [0.05, 0.04, 0.03], [0.0, -0.1]):
        rows = [{"reward/mean": 0.5, "displacement/cross": level} for level in levels for _ in range(10)]
        assert accelerating_stretch(rows) is None
