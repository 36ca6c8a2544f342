"""The experiments' command: each run is recorded once, continues after an interruption, and is shown and drawn."""

import gzip
import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from trainer_hooks.reference.__main__ import main as train_from_command_line
from trainer_hooks.reference.experiments.__main__ import main
from trainer_hooks.reference.experiments.arms import ARMS, PROBE_ARMS, configure_arm
from trainer_hooks.reference.experiments.catalogue import EXPERIMENTS, MOST_ARMS, Experiment
from trainer_hooks.reference.experiments.figures import saving
from trainer_hooks.reference.experiments.figures.draw import draw
from trainer_hooks.reference.experiments.figures.panels import COLOURS
from trainer_hooks.reference.experiments.figures.recorded import recorded_figure
from trainer_hooks.reference.experiments.healthy_runs import HEALTHY_SEEDS
from trainer_hooks.reference.experiments.planned_runs import healthy_jobs, search_jobs
from trainer_hooks.reference.experiments.run_recording import divergence_row, read, record, write
from trainer_hooks.reference.experiments.tables.cure_comparison import fair_table
from trainer_hooks.reference.experiments.tables.decomposition import decomposition_table, momentum_table, origin_table
from trainer_hooks.reference.experiments.tables.healthy_cost import healthy_cost_table
from trainer_hooks.reference.experiments.tables.outcomes import share_interval, table
from trainer_hooks.reference.experiments.tables.sibling_updates import siblings_table
from trainer_hooks.reference.experiments.tables.signal_course import course_table
from trainer_hooks.reference.experiments.tables.step_size_sweep import sweep_table
from trainer_hooks.reference.presets import OWN_MODEL_PRESETS
from trainer_hooks.reference.run.trainer import Trainer


def written(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("runs-tiny/*")}


def test_an_arm_changes_its_setting_alone(tiny):
    """A slower arm climbs to a share of the preset's learning rate over the same steps; LLDS leaves the rate alone."""
    assert configure_arm(tiny, "quarter-lr", 5) == replace(tiny, seed=5, lr=tiny.lr / 4)
    assert configure_arm(tiny, "llds-0.01", 5) == replace(tiny, seed=5, method="llds", lambda_=0.01)


def test_arms_are_recorded_once_and_shown(tmp_path, tiny_cache, capsys, monkeypatch):
    """Two arms of one seed give two files and two rows; a second call trains nothing."""
    monkeypatch.setenv("PATH", "")  # no browser: the page alone
    options = ["--arms", "grpo", "llds-0.1", "--seeds", "0", "--out", str(tmp_path), "--cache", str(tiny_cache)]
    asked = ["lambda", *options, "--preset", "tiny"]
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "| grpo | 0/1 (0% to 97%) | 0: – |" in printed
    assert "| llds-0.1 | 0/1 (0% to 97%) | 0: – |" in printed
    before = written(tmp_path)
    assert len(before) == 2
    assert main(asked) == 0
    assert written(tmp_path) == before
    assert capsys.readouterr().out == printed
    assert main(["dynamics", *options, "--preset", "tiny", "--arms", "llds-0.1", "--draw-only"]) == 0
    printed = capsys.readouterr().out
    assert "| llds-0.1 |" in printed
    assert "| grpo |" not in printed


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_an_experiment_becomes_a_page_and_a_picture(tmp_path, tiny_cache):
    """The page names the arm and draws a line a seed; the picture is a PNG."""
    options = ["--seeds", "0", "1", "--out", str(tmp_path), "--cache", str(tiny_cache), "--preset", "tiny"]
    assert main(["dynamics", *options]) == 0
    page = (tmp_path / "tiny-dynamics.html").read_text()
    assert "grpo (2 seeds)" in page
    assert "grpo, seed 1" in page
    assert (tmp_path / "tiny-dynamics.png").read_bytes().startswith(b"\x89PNG")


def test_the_figure_on_questions_shows_what_the_probe_found(tmp_path, tiny_cache, monkeypatch):
    """Every probed question of a recorded run is a dot, and the counts on the axis add up to them."""
    monkeypatch.setenv("PATH", "")  # no browser: the page alone
    options = ["--seeds", "0", "--out", str(tmp_path), "--cache", str(tiny_cache), "--preset", "tiny"]
    assert main(["displacement", *options]) == 0
    rows = read(tmp_path / "runs-tiny" / "grpo-seed0.jsonl.gz")
    questions = sum(len(row.get("probe/by_question", [])) for row in rows)
    page = (tmp_path / "tiny-displacement.html").read_text()
    counted = [int(text.split(" questions")[0]) for text in page.split("\\u003cbr\\u003e")[1:] if " questions" in text]
    assert sum(counted) == questions > 0


def test_a_cut_recording_goes_on_where_it_was(tmp_path, tiny, monkeypatch):
    """Cut after step 3 with the state of step 2 kept, it ends in the same bytes as the run that was not cut."""
    monkeypatch.setattr("trainer_hooks.reference.experiments.run_recording.KEEP_EVERY", 2)
    whole, cut = tmp_path / "whole.jsonl.gz", tmp_path / "cut.jsonl.gz"
    record(tiny, whole, fixed=True)
    train, steps = Trainer.step, []

    def step(trainer):
        steps.append(trainer.step_number)
        if trainer.step_number == 3 and len(steps) == 4:
            raise KeyboardInterrupt
        return train(trainer)

    monkeypatch.setattr(Trainer, "step", step)
    with pytest.raises(KeyboardInterrupt):
        record(tiny, cut, fixed=True)
    assert not cut.exists()
    record(tiny, cut, fixed=True)
    assert steps == [0, 1, 2, 3, 2, 3]
    assert cut.read_bytes() == whole.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"whole.jsonl.gz", "cut.jsonl.gz"}
    assert all({"fixed/likelihood", "fixed/entropy"} <= row.keys() for row in read(cut))


def test_a_dead_run_is_followed_for_a_while_and_left(tmp_path, tiny, monkeypatch):
    """Collapsed at step 2 by a rule made for this test, and followed for one step: three rows of four."""
    monkeypatch.setattr(
        "trainer_hooks.reference.experiments.run_recording.collapse_step",
        lambda rewards: 2 if len(rewards) >= 2 else None,
    )
    record(tiny, tmp_path / "run.jsonl.gz", after_collapse=1)
    assert [row["step"] for row in read(tmp_path / "run.jsonl.gz")] == [1, 2, 3]


def test_a_run_that_diverges_is_recorded_as_a_collapse(tmp_path, tiny):
    """The steps before it are kept, and a last row with a reward of NaN; the table counts it."""
    path = tmp_path / "grpo-seed0.jsonl.gz"
    record(replace(tiny, lr=1e30), path)
    (row,) = read(path)
    assert row["step"] == 1
    assert math.isnan(row["reward/mean"])
    write([{"step": 1, "reward/mean": 0.6}, divergence_row([{"step": 1}])], tmp_path / "grpo-seed1.jsonl.gz")
    assert table(tmp_path, ["grpo"]).splitlines()[2].startswith("| grpo | 2/2 (16% to 100%) | 0: 1, 1: 2 |")


def test_every_table_takes_runs_that_diverged(tmp_path, monkeypatch, capsys):
    """At the first step, at step 5 and at step 61 they earn nothing more, so that no cell is NaN."""
    monkeypatch.setenv("PATH", "")  # no browser: the pages alone
    whole = read(Path(__file__).parents[4] / "docs/experiments/runs-stubborn/grpo-seed3.jsonl.gz")[:90]
    out = tmp_path / "experiments"
    arms = {"runs": "grpo", "healthy-cost": "grpo", "rescue": "rollback-llds", "healthy": "plain", "search": "steady"}
    for folder, arm in arms.items():
        (out / folder).mkdir(parents=True)
        for seed, steps in enumerate([90, 0, 4, 60]):
            rows = whole[:steps] if steps == 90 else [*whole[:steps], divergence_row(whole[:steps])]
            write([row | {"attempt": 1} for row in rows], out / folder / f"{arm}-seed{seed}.jsonl.gz")
    names = ["dynamics", "displacement", "siblings", "multipliers", "decomposition", "evidence", "fair", "healthy"]
    names += ["healthy-cost", "pilot", "regimes", "rescue", "search"]
    assert main([*names, "--draw-only", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "| grpo | 3/4 (19% to 99%) | 0: –, 1: 1, 2: 5, 3: 61 |" in printed
    assert "| plain | 1 | 1 | 0.00 | 0.00 | 0.00 | none | none | no, collapsed at 1 |" in printed
    assert "nan" not in printed


def test_a_run_that_diverges_early_earns_nothing_more(tmp_path):
    """The mean over 50 steps of a run that diverges at step 21 is 20 · 0.6 / 50 = 0.24, and its final reward is 0."""
    for seed in range(5):
        rows = [{"step": step, "reward/mean": 0.6, "eval/reward": 0.6} for step in range(1, 121)]
        write(rows, tmp_path / f"grpo-seed{seed}.jsonl.gz")
        write([*rows[:20], divergence_row(rows[:20])], tmp_path / f"ppo-seed{seed}.jsonl.gz")
    row = fair_table(tmp_path, ["grpo", "ppo"]).splitlines()[3]
    assert row.startswith("| ppo | 5 | 0.24 (0.24 to 0.24) | −0.360 (−0.360 to −0.360) | no | 21 |")
    assert table(tmp_path, ["ppo"]).splitlines()[2].endswith("| 0.60 (0.60 to 0.60) | 0.00 (0.00 to 0.00) |")
    cost = healthy_cost_table(tmp_path, ["ppo"])
    assert "| 0/5 | 0.10 (0.10 to 0.10) |" in cost  # 20 · 0.6 / 120


def test_a_fault_that_is_no_collapse_ends_the_experiment_in_one_line(tmp_path, tiny_cache, capsys):
    """The folder of recordings is a file: exit code 1, and nothing is recorded as a result."""
    out = tmp_path / "file"
    out.touch()
    options = ["--arms", "grpo", "--seeds", "0", "--out", str(out), "--cache", str(tiny_cache), "--preset", "tiny"]
    assert main(["lambda", *options]) == 1
    assert "error: [Errno" in capsys.readouterr().err


def test_a_collector_that_does_not_start_ends_a_rescue_in_one_line(tmp_path, capsys, monkeypatch):
    """The collector refuses its settings: exit code 1, and nothing is recorded."""
    monkeypatch.setenv("RLVITALS_MAX_RECORDS", "many")
    options = ["--arms", "fork", "--seeds", "0", "--out", str(tmp_path / "out"), "--cache", str(tmp_path)]
    assert main(["rescue", *options]) == 1
    assert "error: the collector must print its address, got ''" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_recorded_row_is_plain_json_of_four_digits(tmp_path, tiny):
    """Numbers under their canonical names, a step each."""
    record(tiny, tmp_path / "run.jsonl.gz")
    rows = read(tmp_path / "run.jsonl.gz")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert {"reward/mean", "likelihood/correct", "entropy/paired_delta", "grad/norm"} <= rows[0].keys()
    assert all(len(json.dumps(abs(value)).replace("0.", "").lstrip("0")) <= 8 for value in rows[0].values())


def test_every_arm_of_an_experiment_exists():
    """An arm that is not there is refused when the experiment is written, not when it has run for an hour."""
    with pytest.raises(ValueError, match="arms must be among"):
        Experiment("", ("grpo", "magic"), {})
    with pytest.raises(ValueError, match="at most 8 arms, one a colour, got 9"):
        Experiment("", ("grpo",) * 9, {})
    assert len(COLOURS) == MOST_ARMS
    assert {arm for experiment in EXPERIMENTS.values() for arm in experiment.arms} <= set(ARMS | PROBE_ARMS)


def test_a_panel_may_leave_arms_out_and_each_is_named_once():
    """Two panels of two arms each, one of them in both: three lines in the legend, four of runs, four of medians."""
    rows = [{"step": step, "reward/mean": 0.5} for step in range(1, 4)]
    runs = {arm: {0: rows} for arm in ("grpo", "nthr", "ppo")}
    panels = {"one": "reward/mean of grpo nthr", "other": "log reward/mean of nthr ppo"}
    figure = draw(Experiment("title", tuple(runs), panels), runs)
    assert [line.name for line in figure.data if line.showlegend] == [f"{arm} (1 seed)" for arm in runs]
    assert [(line.legendgroup, line.yaxis) for line in figure.data if line.line.width == 3] == [
        ("grpo", "y"), ("nthr", "y"), ("nthr", "y2"), ("ppo", "y2"),
    ]  # fmt: skip
    assert len(figure.data) == 8
    assert figure.layout.yaxis2.type == "log"


def test_the_median_of_a_panel_is_that_of_the_seeds_with_a_number():
    """Of three seeds the first has no entropy yet: the median is that of the others, 0.3."""
    rows = [[{"step": 1, "reward/mean": 0.5, "entropy/mean": value}] for value in (math.nan, 0.2, 0.4)]
    runs = {"grpo": dict(enumerate(rows))}
    figure = draw(Experiment("title", ("grpo",), {"one": "entropy/mean of grpo"}), runs)
    (middle,) = [line for line in figure.data if line.line.width == 3]
    assert middle.y == pytest.approx((0.3,))


def test_the_regimes_are_drawn_side_by_side_from_whatever_is_recorded(tmp_path, capsys):
    """Two presets of one and of two seeds: a panel and a row each, and a legend that says how many seeds there are."""
    rows = [{"step": step, "reward/mean": 0.5} for step in range(1, 4)]
    for run in (
        "experiments/runs/grpo-seed0",
        "experiments/runs/grpo-seed1",
        "probes/runs-pretrained-short/grpo-2e-4-seed0",
    ):
        path = tmp_path / f"{run}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(rows, path)
    assert main(["regimes", "--out", str(tmp_path / "experiments")]) == 0
    printed = capsys.readouterr().out
    assert "| demo | grpo | 3 to 3 | 0/2" in printed
    assert "| pretrained-short | grpo | 3 to 3 | 0/1" in printed
    assert "stubborn" not in printed
    figure = recorded_figure("regimes", preset="demo", folder=tmp_path, docs=tmp_path)
    assert [line.name for line in figure.data if line.showlegend] == ["grpo (1 to 2 seeds)"]
    assert [panel.text for panel in figure.layout.annotations] == [
        "reward, preset demo",
        "reward, preset pretrained-short",
    ]
    assert (tmp_path / "experiments/regimes.html").stat().st_size > 0
    assert main(["regimes", "--out", str(tmp_path / "nothing/experiments")]) == 0
    assert "nothing is recorded that regimes could draw" in capsys.readouterr().err


def test_the_healthy_runs_are_what_their_page_says(tmp_path):
    """27 runs of 750 steps, no seed used twice, and no search run shares a name."""
    jobs = healthy_jobs(tmp_path, tmp_path)
    assert sum(job.config.steps for job in jobs) == 20_250
    seeds = [seed for several in HEALTHY_SEEDS.values() for seed in several]
    assert len(seeds) == len(set(seeds)) == len(jobs) == 27
    assert not any(job.config.retry for job in jobs)
    paths = [job.path for job in search_jobs(tmp_path, tmp_path)]
    assert len(paths) == len(set(paths))


def test_an_unknown_experiment_or_arm_is_refused(capsys):
    """The message lists the existing ones."""
    for asked in (["magic"], ["lambda", "--arms", "magic"]):
        with pytest.raises(SystemExit):
            main(asked)
        assert "must be one of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (["dynamics", "--arms", "fork"], "an arm of this experiment must be one of grpo"),
        (["healthy-cost", "--arms", "fork"], "an arm of this experiment must be one of grpo"),
        (["rescue", "--arms", "grpo"], "an arm of rescue must be one of rollback-llds-tenth"),
    ],
)
def test_an_arm_of_another_experiment_is_refused_in_one_line(asked, reason, tmp_path, capsys):
    """The message lists the arms that the experiment has, and nothing is trained."""
    with pytest.raises(SystemExit):
        main([*asked, "--out", str(tmp_path), "--cache", str(tmp_path)])
    assert reason in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_a_browser_that_does_not_answer_costs_the_picture_alone(tmp_path, tiny_cache, monkeypatch, capsys):
    """The tables and the page are there, and one line names the picture that is missing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    browser = folder / "chromium"
    browser.write_text("#!/bin/sh\nexec sleep 60\n")
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(saving, "LIMIT_SECONDS", 0.2)
    options = ["--preset", "tiny", "--arms", "grpo", "--seeds", "0", "--out", str(tmp_path), "--cache", str(tiny_cache)]
    assert main(["dynamics", *options]) == 0
    printed = capsys.readouterr()
    assert "| grpo |" in printed.out
    assert f"no picture: {browser} must draw tiny-dynamics within 0.2 s" in printed.err
    assert (tmp_path / "tiny-dynamics.html").stat().st_size > 0


@pytest.mark.parametrize("preset", sorted(OWN_MODEL_PRESETS))
def test_a_preset_for_a_model_of_ones_own_is_refused_without_one(preset, tmp_path, capsys):
    """Otherwise the built-in model would be trained, with settings for a large one."""
    with pytest.raises(SystemExit):
        main(["fair", "--preset", preset, "--out", str(tmp_path), "--cache", str(tmp_path)])
    assert f"--preset {preset} must be given with --model" in capsys.readouterr().err.splitlines()[-1]
    with pytest.raises(SystemExit):
        train_from_command_line(["--preset", preset])
    assert f"--preset {preset} must be given with --model" in capsys.readouterr().err.splitlines()[-1]


def test_the_chosen_arms_are_those_of_the_table(capsys):
    """Also of tables that compare all arms by default."""
    assert main(["fair", "--preset", "spiral", "--draw-only", "--arms", "half-lr", "ppo"]) == 0
    rows = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert rows == ["arm", "half-lr", "ppo"]


def test_evidence_without_recordings_names_the_folder(tmp_path, capsys):
    """A blank line would look like an answer."""
    assert main(["evidence", "--preset", "spiral", "--out", str(tmp_path)]) == 0
    assert f"is recorded in {tmp_path / 'runs-spiral'}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "folder"),
    [("fair", "runs-spiral"), ("pilot", "runs-spiral"), ("decomposition", "runs-spiral"), ("rescue", "rescue-spiral")],
)
def test_tables_without_rows_come_with_the_folder_that_was_read(name, folder, tmp_path, capsys):
    """The recordings of some experiments are in another folder than the default."""
    assert main([name, "--preset", "spiral", "--draw-only", "--out", str(tmp_path)]) == 0
    assert f"nothing is recorded in {tmp_path / folder}; --out is the folder above" in capsys.readouterr().err
    (tmp_path / folder).mkdir()
    write([{"step": 1, "reward/mean": 0.5, "lr": 1e-3}], tmp_path / folder / "grpo-seed0.jsonl.gz")
    assert main([name, "--preset", "spiral", "--draw-only", "--out", str(tmp_path)]) == 0
    assert "nothing is recorded in" not in capsys.readouterr().err


def test_an_empty_folder_gives_a_table_without_rows(tmp_path):
    """Two lines of header and no arm."""
    assert len(table(tmp_path).splitlines()) == 2


def test_the_course_of_an_arm_is_its_median_run(tmp_path):
    """Three seeds of 20, 20 and 25 steps: two columns, the median of means of ten, NaN and absent steps left out."""
    for seed, (steps, level) in enumerate([(20, 0.2), (20, 0.4), (25, 0.9)]):
        rows = [{"step": step, "reward/mean": level + (step > 10) * 0.1} for step in range(1, steps + 1)]
        rows[0]["displacement/cross"] = float("nan") if seed else -0.5
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"grpo-seed{seed}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    lines = course_table(tmp_path, "grpo").splitlines()
    assert lines[0] == "| to step | 10 | 20 |"
    assert lines[2] == "| reward | 0.40 | 0.50 |"
    assert "| displacement of held-out correct ones, a step | −0.500 | – |" in lines


def test_the_course_of_llds_has_its_gate_and_its_penalty(tmp_path):
    """The gate and the penalty of vanilla GRPO act on nothing, so its course has no rows for them."""
    rows = [{"reward/mean": 0.5, "lld/gated_responses_frac": 0.25, "loss/llds": 0.0012}] * 10
    for arm in ("grpo", "llds-0.1"):
        write(rows, tmp_path / f"{arm}-seed0.jsonl.gz")
    penalised = course_table(tmp_path, "llds-0.1").splitlines()
    assert penalised[:-2] == course_table(tmp_path, "grpo").splitlines()
    assert penalised[-2:] == [
        "| protected responses with an open gate (eq. 5), share | 0.25 |",
        "| LLDS's penalty before λ, nats a token | 0.0012 |",
    ]


def test_the_interval_of_a_share_is_exact():
    """0 of 5: 1 − 0.025^(1/5) = 0.522; 5 of 5 mirrors it; 2 of 4 is symmetric."""
    assert share_interval(0, 5) == pytest.approx((0.0, 1 - 0.025**0.2))
    assert share_interval(5, 5) == pytest.approx((0.025**0.2, 1.0))
    low, high = share_interval(2, 4)
    assert low == pytest.approx(1 - high)
    assert low == pytest.approx(0.0676, abs=1e-4)


def test_the_table_of_siblings_has_the_difference_within_minibatches(tmp_path):
    """Six steps of one run, 0.3 against 0.1 in each: nothing where a step lacks a stratum."""
    step = {"reward/mean": 1.0, "siblings/lost_after_wrong": 0.3, "siblings/lost_before_wrong": 0.1}
    rows = [step | {"step": number, "siblings/lost_within": 0.2} for number in range(1, 6)]
    write([*rows, step | {"step": 6}], tmp_path / "grpo-split-seed0.jsonl.gz")
    early, _, late = siblings_table(tmp_path, ["grpo-split"]).splitlines()[2:]
    level = "| +0.3000 (+0.3000 to +0.3000) | +0.1000 (+0.1000 to +0.1000) | +0.2000 (+0.2000 to +0.2000) |"
    assert early == f"| grpo-split | early | 1 | 2 {level}"
    assert late.startswith("| grpo-split | late | 1 | 1 | +0.3000 (−inf to +inf)")


def test_a_sweep_is_recorded_and_tabulated(tmp_path, tiny_cache, capsys, monkeypatch):
    """A swept run has a list of displacements for every multiplier and of GWHES, which the table pools by thirds."""
    monkeypatch.setenv("PATH", "")  # no browser: the page alone
    monkeypatch.setitem(PROBE_ARMS, "grpo-sweep", {"probe_every": 1, "probe_sweep": True})
    options = ["--seeds", "0", "--out", str(tmp_path), "--cache", str(tiny_cache), "--preset", "tiny"]
    assert main(["multipliers", *options]) == 0
    rows = read(tmp_path / "runs-tiny" / "grpo-sweep-seed0.jsonl.gz")
    probed = [row for row in rows if "probe/by_question" in row]
    names = [f"probe/by_question{suffix}" for suffix in ("", "_x2", "_x4", "_x8", "_x16")]
    names += ["probe/gwhes_by_question", "probe/gwhes_action0_by_question"]
    assert probed
    assert all(len({len(row[name]) for name in names}) == 1 for row in probed)
    assert sweep_table(tmp_path / "runs-tiny", ["grpo-sweep"]) in capsys.readouterr().out


def test_the_table_of_a_sweep_is_worked_by_hand(tmp_path):
    """Three steps of two questions: one falls at ×4 and both at ×8, so s* is 4; one G of two is above 0."""
    names = ["probe/by_question", *(f"probe/by_question_x{number}" for number in (2, 4, 8, 16))]
    changes = [[1, 1], [1, 1], [-1, 1], [-1, -1], [-1, -1]]
    row = dict(zip(names, changes, strict=True)) | {"reward/mean": 0.5}
    row |= {"probe/gwhes_by_question": [-30, -10], "probe/gwhes_action0_by_question": [4, -2]}
    text = "".join(json.dumps({"step": step} | row) + "\n" for step in range(1, 4))
    (tmp_path / "grpo-sweep-seed0.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    lines = sweep_table(tmp_path, ["grpo-sweep"]).splitlines()
    assert lines[2] == "| grpo-sweep | early | 2 | 0% | 0% | 50% | 100% | 100% | 4.0 | −20 | 0% | +1 | 50% |"
    assert len(lines) == 5


def test_the_table_of_a_decomposition_averages_the_steps_that_have_one(tmp_path):
    """Two of three steps are decomposed, in two thirds: their parts stand beside the measured change."""
    parts = dict.fromkeys(["own", "negatives", "others", "regularisers", "scaling", "momentum", "remainder"], 0.0)
    parts |= {"measured": -0.25, "own": 0.5, "momentum": -0.75}
    split = {f"decomposition/{name}": value for name, value in parts.items()}
    rows = [{"step": step, "reward/mean": 0.5} | (split if step != 2 else {}) for step in range(1, 4)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "grpo-sweep-seed0.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    lines = decomposition_table(tmp_path, ["grpo-sweep"]).splitlines()
    assert lines[2:] == [
        f"| grpo-sweep | {third} | 1 | −0.250 | +0.500 | +0.000 | +0.000 | +0.000 | +0.000 | −0.750 | +0.000 |"
        for third in ("early", "late")
    ]


def test_the_tables_of_momentum_and_origin_leave_out_steps_that_were_recorded_without_the_parts(tmp_path):
    """One of two decomposed steps has all parts: its row alone is there, and origins add plain, scaled and carried."""
    parts = {"measured": 1.0, "remainder": 0.5, "own": 0.25, "negatives": 0.125, "others": 0.0, "regularisers": 0.0}
    parts |= {"momentum": -0.75, "momentum_own": 0.25, "momentum_negatives": 0.0, "momentum_others": -0.5}
    parts |= {"momentum_regularisers": 0.0, "momentum_earlier": -0.5, "scaling": 0.5, "scaling_own": 0.5}
    parts |= dict.fromkeys(["scaling_negatives", "scaling_others", "scaling_regularisers"], 0.0)
    split = {f"decomposition/{name}": value for name, value in parts.items()}
    rows = [{"step": 1, "decomposition/momentum": 0.5}, {"step": 2}, {"step": 3} | split]
    text = "".join(json.dumps(row | {"reward/mean": 0.5}) + "\n" for row in rows)
    (tmp_path / "grpo-sweep-seed0.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    head, _, *lines = momentum_table(tmp_path, ["grpo-sweep"]).splitlines()
    assert head == "| arm | third | steps | momentum | own | negatives | others | regularisers | earlier |"
    assert lines == ["| grpo-sweep | late | 1 | −0.750 | +0.250 | +0.000 | −0.500 | +0.000 | −0.500 |"]
    *_, line = origin_table(tmp_path, ["grpo-sweep"]).splitlines()
    assert line == "| grpo-sweep | late | 1 | +1.000 | +1.000 | +0.125 | −0.500 | +0.000 | −0.500 | +0.500 |"
