"""Detectors of causes around a policy: rate, responses, rewards, grader, batch. An intended change is not reported."""

import random

import pytest

from monitor_server.detection.protocol import Observation
from monitor_server.detection.registry import DETECTORS


def reports(name, rows):
    """Return step and severity of every finding of a detector over rows of signals."""
    judge = DETECTORS[name]()
    return [
        (found.step, str(found.severity))
        for step, signals in enumerate(rows)
        for found in judge.update(Observation(step=step, signals=signals))
    ]


def test_a_warm_up_and_restarts_of_a_schedule_are_meant():
    """A rate that climbs from 0, falls, and twice returns to its peak is not reported."""
    climb, fall = [1e-6 * step / 20 for step in range(21)], [1e-6 * (1 - step / 25) for step in range(20)]
    assert reports("rate_rise", [{"lr": rate} for rate in [*climb, *fall, *[1e-6] * 8, *fall, *[1e-6] * 8]]) == []


def test_a_long_warm_up_that_the_log_rounds_is_meant():
    """With one digit, every tenth of a warm-up is a rate that has settled and then rises up to twofold."""
    rates = [round(1e-6 * step / 200, 7) for step in range(240)]
    assert reports("rate_rise", [{"lr": rate} for rate in rates]) == []


def test_a_rate_that_climbs_slowly_beyond_its_peak_is_reported():
    """A fifth more in each row is reported at the third row, above 1.5 times the peak, and ends when it is back."""
    rows = [*[1e-6] * 10, 1.2e-6, 1.44e-6, 1.73e-6, 2.1e-6, 1e-6, 1e-6]
    assert reports("rate_rise", [{"lr": rate} for rate in rows]) == [(12, "warning"), (13, "warning")]


@pytest.mark.parametrize("signal", ["entropy/paired_delta", "displacement/cross", "kl/old", "kl/ref", "grad/norm"])
def test_a_rate_that_does_damage_is_a_page(signal):
    """One signal at ten times its record in two rows after a rise of the rate; without a rise there is no finding."""
    for rate, expected in ((1e-5, {"warning", "critical"}), (1e-6, set())):
        rows = [{"lr": 1e-6, signal: 0.01}] * 12 + [{"lr": rate, signal: 0.1}] * 3
        assert {severity for _, severity in reports("rate_rise", rows)} == expected


def test_a_new_attempt_may_have_another_rate():
    """A run that is resumed with ten times the rate is not reported."""
    judge, found = DETECTORS["rate_rise"](), []
    for step in range(30):
        resumed = step >= 15
        signals = {"lr": 1e-5 if resumed else 1e-6}
        found += judge.update(Observation(step=step, attempt=2 if resumed else 1, signals=signals))
    assert found == []


def responses(passes, *, seed=1, kl=0.001):
    """Return rows of responses that are trained on so many times each; the divergence grows with each pass."""
    noise, rows = random.Random(seed), []  # noqa: S311 - synthetic telemetry
    for times in passes:
        sampled = {"reward/mean": noise.random(), "reward/std": 0.5, "length/mean": 100 * noise.random()}
        rows += [sampled | {"entropy/mean": 0.5 + 0.001 * row, "kl/old": kl * 2.0**row} for row in range(times)]
    return rows


def test_as_many_passes_as_ever_are_meant():
    """A run that trains six times on every batch is not reported, for any divergence."""
    assert reports("stale_responses", responses([6] * 20, kl=0.1)) == []


def test_responses_that_stay_are_warned_of_and_paged_once_the_policy_is_far():
    """After batches of two passes the fifth pass is a warning; the tenth, at half a nat, is critical."""
    found = reports("stale_responses", responses([2] * 6 + [12]))
    assert found[0] == (16, "warning")
    assert next(step for step, severity in found if severity == "critical") == 17


def test_a_stale_batch_is_no_yardstick_for_the_next():
    """After a sampler stopped in the last passes of a batch, the fourth pass over the next responses is a warning.

    Three passes over one batch do not make seven passes over the next usual. The divergence doubles with each pass and
    is above 0.03 at the sixth.
    """
    assert reports("stale_responses", responses([1] * 6 + [3, 7])) == [
        (12, "warning"),
        (13, "warning"),
        (14, "critical"),
        (15, "critical"),
    ]


def test_as_many_passes_as_two_batches_had_are_meant():
    """Six passes over each batch instead of one are reported in the first and the second of these, and no more."""
    found = reports("stale_responses", responses([1] * 4 + [6] * 5, kl=0.0001))
    assert found == [(step, "warning") for step in (7, 8, 9, 13, 14, 15)]


def test_rows_without_a_reward_are_further_passes():
    """TRL logs no reward in the rows of a further pass."""
    rows = responses([1] * 6) + [{"loss/policy": 0.1, "entropy/mean": 0.5}] * 4
    assert [step for step, _ in reports("stale_responses", rows)] == [8, 9]


def test_rewards_that_do_not_differ_repeat_by_chance():
    """A run that never scores repeats its reward of 0 and its longest length, and is not reported."""
    never = {"reward/mean": 0.0, "reward/std": 0.0, "length/mean": 512.0, "entropy/mean": 0.5}
    assert reports("stale_responses", responses([1] * 6) + [never] * 20) == []


def graded(rows, *, weight, extra=None, spread=0.0, seed=2):
    """Return rows whose reward is 0.2 + weight · correct + extra + noise."""
    noise, found = random.Random(seed), []  # noqa: S311 - synthetic telemetry
    for row in range(rows):
        correct = 0.3 + 0.1 * noise.gauss(0, 1)
        reward = 0.2 + weight * correct + (extra(row) if extra else 0.0) + spread * noise.gauss(0, 1)
        found.append({"reward/correct_frac": correct, "reward/mean": reward, "length/mean": 90 + noise.random()})
    return found


def test_a_reward_that_doubles_without_correct_responses_is_a_page():
    """A bonus of three from row 40 on is critical at its third row; correct responses alone are never reported."""
    assert reports("reward_detachment", graded(60, weight=1.0, spread=0.01)) == []
    found = reports("reward_detachment", graded(60, weight=1.0, spread=0.01, extra=lambda row: 3.0 * (row >= 40)))
    assert (42, "critical") in found
    assert not [step for step, _ in found if step < 40]


def test_a_slow_bonus_is_warned_of():
    """A bonus that grows by 0.03 a row from row 40 on is found before row 52."""
    found = reports("reward_detachment", graded(70, weight=1.0, spread=0.01, extra=lambda row: 0.03 * max(0, row - 40)))
    assert found
    assert 40 < found[0][0] < 52


def test_a_reward_of_many_parts_is_not_judged():
    """Where correct responses explain little of the reward, a learned format is no detachment."""
    assert reports("reward_detachment", graded(80, weight=0.2, spread=0.1, extra=lambda row: 0.02 * row)) == []


@pytest.mark.parametrize(("correct", "is_reported"), [(0.1, True), (0.9, False)])
def test_a_leap_that_correct_responses_earn_is_none(correct, is_reported):
    """The reward leaps fivefold; it is not reported where the share of correct responses leaps too."""
    rows = [{"reward/mean": 0.2, "reward/correct_frac": 0.1, "length/mean": 90.0 + row} for row in range(20)]
    rows += [{"reward/mean": 1.0, "reward/correct_frac": correct, "length/mean": 50.0 + row} for row in range(2)]
    assert bool(reports("reward_leap", rows)) is is_reported


def test_a_healthy_gap_that_wanders_is_not_reported():
    """A gap that sharpens by a third over 200 rows, with a tenth of noise, is learning."""
    noise = random.Random(8)  # noqa: S311 - synthetic telemetry
    rows = [
        {"likelihood/correct": -0.2 + 0.1 * noise.gauss(0, 1), "likelihood/incorrect": -1.2 - 0.0015 * row}
        for row in range(200)
    ]
    assert reports("verdict_decline", rows) == []


def test_a_grader_that_turns_round_is_a_page_at_its_second_batch():
    """With eight batches of baseline the ranks alone would need five rows; the size of the loss needs two."""
    noise = random.Random(9)  # noqa: S311 - synthetic telemetry
    rows = [{"likelihood/correct": -0.2 + 0.05 * noise.gauss(0, 1), "likelihood/incorrect": -1.2} for _ in range(8)]
    rows += [{"likelihood/correct": -1.2, "likelihood/incorrect": -0.2 - 0.01 * row} for row in range(4)]
    assert reports("verdict_gap", rows)[0] == (9, "critical")


def test_one_gradient_beyond_all_before_is_a_page_only_with_advantages_out_of_scale():
    """A single norm at 300 times the record is a spike; with advantages of 700 in place of 0.8 it is a bad batch."""
    for advantage, expected in ((0.8, []), (700.0, [(20, "critical")])):
        rows = [{"grad/norm": 0.5, "advantage/mean_abs": 0.8}] * 20
        rows.append({"grad/norm": 150.0, "advantage/mean_abs": advantage})
        assert reports("gradient_spike", rows) == expected
