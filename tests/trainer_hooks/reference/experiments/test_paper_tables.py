"""The tables beside the paper's, worked by hand on made-up recordings: the fair test, Fig. 7, Tables 1 and 2."""

import pytest

from trainer_hooks.reference.experiments.run_recording import write
from trainer_hooks.reference.experiments.tables.cure_comparison import FAIR_ARMS, fair_table
from trainer_hooks.reference.experiments.tables.gwhes import gwhes_action_table
from trainer_hooks.reference.experiments.tables.healthy_cost import healthy_cost_table
from trainer_hooks.reference.experiments.tables.paper import drop_table, paper_table

DEAD_STEPS = 40


def record(folder, arm, rewards_by_seed):
    """Write a recording a seed with these rewards."""
    for seed, rewards in enumerate(rewards_by_seed):
        rows = [{"step": at, "reward/mean": reward} for at, reward in enumerate(rewards, start=1)]
        write(rows, folder / f"{arm}-seed{seed}.jsonl.gz")


def dies(life, *, reward=0.6):
    """Rewards of a run that earns one reward and then nothing: its average is below half three steps later."""
    return [reward] * (life - 4) + [0.0] * DEAD_STEPS


def cells(table, arm):
    """Return the cells of an arm's row."""
    (row,) = [line for line in table.splitlines() if line.startswith(f"| {arm} |")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_cure_meets_the_bar_alive_at_twice_the_uncured_life_and_at_equal_reward(tmp_path):
    """0.8⁴ = 0.41 < 0.5 of the best: a run that earns nothing from step 97 on has collapsed at step 100."""
    record(tmp_path, "grpo", [dies(100)] * 5)
    record(tmp_path, "nthr", [dies(201)] * 4 + [dies(150)])
    table = fair_table(tmp_path)
    assert cells(table, "grpo")[5:] == ["100", "1.00", "0/5", "–"]
    assert cells(table, "nthr")[3:] == ["+0.000 (+0.000 to +0.000)", "yes", "201", "2.01", "4/5", "yes"]
    assert "- Arms that meet the bar: nthr." in table


@pytest.mark.parametrize(
    ("arm", "runs", "expected"),
    [
        ("half-lr", [dies(300, reward=0.5)] * 5, ["no", "300", "3.00", "5/5", "no"]),  # a smaller step in disguise
        ("placebo-0.1", [dies(300)] * 3 + [dies(150)] * 2, ["yes", "300", "3.00", "3/5", "no"]),
        ("kl-0.01", [dies(300), dies(301)], ["yes", "300.5", "3.00", "2/2", "too few seeds"]),
        ("ppo", [dies(200)] * 5, ["yes", "200", "2.00", "0/5", "no"]),  # dead at that very step
        ("llds-0.1", [[0.6] * 200] * 5, ["yes", "over 200", "over 2.00", "5/5", "yes"]),
        ("clip-higher", [[0.6] * 150] * 5, ["yes", "over 150", "over 1.50", "0/5, 5 not observed", "no"]),
    ],
)
def test_what_fails_the_bar_and_why(tmp_path, arm, runs, expected):
    """Less reward at first, too few seeds alive, too few seeds, a death on time, and an end before the time."""
    record(tmp_path, "grpo", [dies(100)] * 5)
    record(tmp_path, arm, runs)
    assert cells(fair_table(tmp_path), arm)[4:] == expected


def test_another_model_is_compared_with_its_own_uncured_runs(tmp_path):
    """A wider model earns more from the start, which is no effect of the cure."""
    record(tmp_path, "grpo", [dies(100)])
    record(tmp_path, "grpo-wide", [dies(80, reward=0.8)])
    record(tmp_path, "llds-wide", [dies(120, reward=0.8)])
    assert cells(fair_table(tmp_path), "llds-wide")[3:7] == ["+0.000 (+0.000 to +0.000)", "yes", "120", "1.50"]


def test_a_life_that_was_not_observed_is_compared_with_nothing(tmp_path):
    """Uncured runs that end alive at step 50 may live for any time: a life of 120 is no multiple of theirs."""
    record(tmp_path, "grpo", [[0.6] * 50] * 5)
    record(tmp_path, "nthr", [dies(120)] * 5)
    assert cells(fair_table(tmp_path), "nthr")[5:] == ["120", "–", "–", "–"]


def test_arms_without_runs_are_named(tmp_path):
    """A missing run is part of the result."""
    record(tmp_path, "grpo", [dies(100)])
    assert fair_table(tmp_path).endswith(f"- Not run: {', '.join(FAIR_ARMS[1:])}.")


def test_the_gradient_norm_stands_beside_the_first_fall_of_the_reward(tmp_path):
    """Zeros begin at step 31: of ten steps to step 33 three are 0, and their mean of 0.35 is under 0.8 · 0.5."""
    rows = [{"reward/mean": 0.5, "grad/norm": 1.0}] * 30 + [{"reward/mean": 0.0, "grad/norm": 1.0}] * 5
    rows += [{"reward/mean": 0.0, "grad/norm": 4.0}] * 20
    write(rows, tmp_path / "grpo-seed3.jsonl.gz")
    (row,) = drop_table(tmp_path, ["grpo"]).splitlines()[2:]
    assert row == "| grpo | 3 | 33 | 1.00 | 1.00 | 4.00 | 34 |"


def test_a_run_whose_reward_never_falls_has_no_row(tmp_path):
    """An arm without runs has no row either."""
    write([{"reward/mean": 0.5, "grad/norm": 1.0}] * 40, tmp_path / "grpo-seed0.jsonl.gz")
    assert len(drop_table(tmp_path, ["grpo", "ppo"]).splitlines()) == 2


def test_held_out_reward_stands_beside_the_published_matches(tmp_path):
    """0.360 is 15.4 % above 0.312; 0.55 here is 10 % above 0.5."""
    for arm, reward in {"grpo": 0.5, "llds-0.1": 0.55}.items():
        write([{"reward/mean": 0.5, "eval/reward": reward}] * 20, tmp_path / f"{arm}-seed0.jsonl.gz")
    lines = paper_table(tmp_path).splitlines()[2:]
    assert [line.count("|") for line in lines] == [8, 8]
    assert lines[1].startswith("| llds-0.1 | 0.360 (+15.4%) | 0.462 (+32.0%) |")
    assert lines[1].endswith("| 0.55 (+10.0%) | 0.55 (+10.0%) |")


def test_gwhes_is_tabulated_by_action(tmp_path):
    """Of thirty steps, each ten are a third; recordings without the signal give no row."""
    rows = [{"reward/mean": 0.5, "similarity/gwhes_action0": -2.0} for _ in range(30)]
    rows[0] = rows[0] | {"similarity/gwhes_action1": 5.0}
    write(rows, tmp_path / "grpo-seed0.jsonl.gz")
    write([{"reward/mean": 0.5}] * 30, tmp_path / "ppo-seed0.jsonl.gz")
    assert gwhes_action_table(tmp_path, ["grpo", "ppo"]).splitlines()[2:] == [
        "| grpo | 0 | early | 10 | −2 | 0/10 |",
        "| grpo | 0 | middle | 10 | −2 | 0/10 |",
        "| grpo | 0 | late | 10 | −2 | 0/10 |",
        "| grpo | 1 | early | 1 | +5 | 1/1 |",
    ]


def test_a_cure_is_priced_by_what_its_seeds_lose_beside_the_uncured_ones(tmp_path):
    """Rewards over all steps, over the last 50, and held out; a seed without an uncured run is not compared."""

    def recorded(arm, seed, first, last, held_out):
        rows = [{"reward/mean": first if step < 50 else last, "eval/reward": held_out} for step in range(100)]
        rows[-1]["eval/reward"] = float("nan")
        write(rows, tmp_path / f"{arm}-seed{seed}.jsonl.gz")

    for seed, last in ((1, 0.5), (2, 0.75)):
        recorded("grpo", seed, 0.25, last, 0.5)
        recorded("half-lr", seed, 0.25, last - 0.125, 0.25)
    recorded("half-lr", 3, 0.75, 0.5, 0.25)
    table = healthy_cost_table(tmp_path, ["grpo", "half-lr", "nthr"])
    assert "nthr" not in table
    assert cells(table, "grpo")[1:5] == ["2", "2/2", "0.44 (0.38 to 0.50)", "–"]
    assert cells(table, "half-lr")[1:] == [
        "3",
        "2/3",
        "0.44 (0.31 to 0.62)",
        "−0.062 (−0.062 to −0.062)",
        "0.50 (0.38 to 0.62)",
        "−0.125 (−0.125 to −0.125)",
        "0.25 (0.25 to 0.25)",
        "−0.250 (−0.250 to −0.250)",
    ]
