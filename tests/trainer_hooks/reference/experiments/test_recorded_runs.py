"""The statements of docs/experiments about the recorded runs, and of the demo: the alarm precedes the collapse."""

from pathlib import Path

import pytest

from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation, Severity
from trainer_hooks.reference.experiments.__main__ import main
from trainer_hooks.reference.experiments.arms import ARMS, PROBE_ARMS
from trainer_hooks.reference.experiments.catalogue import EXPERIMENTS as CATALOGUE
from trainer_hooks.reference.experiments.healthy_runs import HEALTHY, healthy_table
from trainer_hooks.reference.experiments.hypotheses import HYPOTHESES
from trainer_hooks.reference.experiments.measures import collapse_step, drift
from trainer_hooks.reference.experiments.run_recording import read
from trainer_hooks.reference.experiments.tables.accelerating_displacement import acceleration_table
from trainer_hooks.reference.experiments.tables.cure_comparison import CURES, fair_table
from trainer_hooks.reference.experiments.tables.decomposition import (
    decomposition_table,
    held_out_table,
    momentum_table,
    origin_table,
)
from trainer_hooks.reference.experiments.tables.drift import drift_table
from trainer_hooks.reference.experiments.tables.forks import cost_table, forks_table
from trainer_hooks.reference.experiments.tables.gwhes import (
    fall_by_gwhes_table,
    first_action_table,
    gwhes_action_table,
    gwhes_table,
)
from trainer_hooks.reference.experiments.tables.healthy_cost import healthy_cost_table
from trainer_hooks.reference.experiments.tables.held_out_reward import eval_table
from trainer_hooks.reference.experiments.tables.outcomes import table
from trainer_hooks.reference.experiments.tables.paper import drop_table, paper_table, searches_table
from trainer_hooks.reference.experiments.tables.question_displacement import question_table
from trainer_hooks.reference.experiments.tables.question_overlap import overlap_table
from trainer_hooks.reference.experiments.tables.regimes import regimes_table
from trainer_hooks.reference.experiments.tables.rollbacks import rescue_table
from trainer_hooks.reference.experiments.tables.short_runs import common_steps_table, pilot_table
from trainer_hooks.reference.experiments.tables.sibling_updates import siblings_table
from trainer_hooks.reference.experiments.tables.signal_course import course_table
from trainer_hooks.reference.experiments.tables.step_size_sweep import sweep_table

EXPERIMENTS = Path(__file__).parents[4] / "docs/experiments"
FOLDER = EXPERIMENTS / "runs"
SPIRAL = EXPERIMENTS / "runs-spiral"
STUBBORN = EXPERIMENTS / "runs-stubborn"
RATES = CATALOGUE["rates"].arms
VANILLA = sorted(FOLDER.glob("grpo-seed*.jsonl.gz"))


@pytest.mark.parametrize("path", VANILLA, ids=lambda path: path.name.split(".")[0])
def test_the_demo_rises_is_warned_of_and_collapses(path):
    """Reward nearly doubles; a warning, of drift too, and a page come at least ten steps before the collapse."""
    recorded = read(path)
    rewards = [row["reward/mean"] for row in recorded]
    collapse = collapse_step(rewards)
    assert collapse is not None
    assert max(sum(rewards[at : at + 10]) for at in range(collapse)) > 1.5 * sum(rewards[:10])
    engine, first = Engine(), {}
    for row in recorded:
        signals = {name: value for name, value in row.items() if name != "step" and not isinstance(value, list)}
        for finding in engine.update(Observation(step=row["step"], signals=signals)).findings:
            first.setdefault((finding.kind, finding.severity), row["step"])
    warned = min(step for (_, severity), step in first.items() if severity is not Severity.INFO)
    assert first["likelihood_drift", Severity.WARNING] <= collapse - 10
    paged = min(step for (_, severity), step in first.items() if severity is Severity.CRITICAL)
    assert warned <= paged <= collapse - 10


def test_the_documented_tables_are_those_of_the_recorded_runs():
    """docs/experiments has the output of `experiments`, `dynamics` and `displacement`, line by line."""
    page = (EXPERIMENTS / "README.md").read_text(encoding="utf-8")
    assert regimes_table(EXPERIMENTS.parent) in page
    assert table(STUBBORN) in page
    assert course_table(STUBBORN, "grpo") in page
    assert question_table(STUBBORN, ["grpo"]) in page
    assert table(EXPERIMENTS / "runs-constant") in page
    page = (EXPERIMENTS / "faster-deaths.md").read_text(encoding="utf-8")
    for folder in (FOLDER, SPIRAL):
        assert table(folder) in page
        assert course_table(folder, "grpo") in page


def test_the_preset_stubborn_has_the_shape_of_the_paper():
    """Every report seed drifts for 30 steps or more while reward holds, falls on and collapses; four of five surge."""
    surges = []
    for path in sorted(STUBBORN.glob("grpo-seed*.jsonl.gz")):
        recorded = read(path)
        found = drift(recorded)
        assert found.steps >= 30
        assert found.further_fall < 0
        assert collapse_step([row["reward/mean"] for row in recorded]) > found.last_step
        surges.append(found.surge)
    assert len(surges) == 5
    assert sum(surge >= 1.5 for surge in surges) >= 4


def test_the_gate_of_llds_is_open_for_some_responses_and_its_penalty_is_small():
    """The numbers of docs/experiments/README.md: the last rows of the course of `llds-0.1`, to steps 50 to 170."""
    lines = course_table(STUBBORN, "llds-0.1").splitlines()
    steps, gate, penalty = ([cell.strip() for cell in lines[at].split("|")[2:-1]] for at in (0, -2, -1))
    shown = slice(steps.index("50"), steps.index("170") + 1)
    open_gates, penalties = ([float(cell) for cell in row[shown]] for row in (gate, penalty))
    assert (min(open_gates), max(open_gates)) == (0.31, 0.41)
    assert (min(penalties), max(penalties)) == (0.0004, 0.0081)


def test_the_rescued_runs_are_documented_as_they_were():
    """docs/experiments/README.md has the output of `experiments rescue`; four of five end above, as the page states."""
    page = (EXPERIMENTS / "README.md").read_text(encoding="utf-8")
    stubborn = rescue_table(EXPERIMENTS / "rescue-stubborn", STUBBORN)
    rescued = EXPERIMENTS / "rescue"
    fresh = EXPERIMENTS.parent / "probes"
    tenth, corrected = (rescue_table(each / "rescue", each / "runs") for each in (fresh, fresh / "rewinds"))
    costs = [cost_table(folder) for folder in (rescued, fresh / "rescue", fresh / "rewinds/rescue")]
    for printed in (rescue_table(rescued, FOLDER), stubborn, tenth, corrected, *costs, forks_table(rescued)):
        assert printed in page
    for printed in (stubborn, corrected):
        assert sum(line.endswith("| yes |") for line in printed.splitlines()) >= 4


def test_the_healthy_runs_are_documented_as_they_are():
    """docs/experiments/healthy/README.md has the output of `experiments healthy`, and every recording is whole."""
    folder = EXPERIMENTS / "healthy"
    assert healthy_table(folder) in (folder / "README.md").read_text(encoding="utf-8")
    for path in folder.glob("*.jsonl.gz"):
        assert [row["step"] for row in read(path)] == list(range(1, 751))


def test_the_search_is_documented_as_it_was():
    """docs/experiments/search.md has the output of `experiments search`."""
    page = (EXPERIMENTS / "search.md").read_text(encoding="utf-8")
    assert drift_table(EXPERIMENTS / "search", HYPOTHESES) in page
    assert drift_table(FOLDER, ["grpo"]) in page
    assert drift_table(SPIRAL, ["grpo", "llds-0.1"]) in page
    assert drift_table(STUBBORN, ["grpo", "llds-0.1"]) in page


def test_the_page_on_the_mechanism_is_what_the_command_prints():
    """docs/experiments/mechanism.md has the output of `experiments evidence` over the presets."""
    page = (EXPERIMENTS / "mechanism.md").read_text(encoding="utf-8")
    assert overlap_table() in page
    assert healthy_cost_table(EXPERIMENTS / "healthy-cost", CURES) in page
    for folder in (STUBBORN, SPIRAL, EXPERIMENTS / "runs-constant"):
        assert gwhes_table(folder, ["grpo"]) in page
    peak = EXPERIMENTS / "runs-release-peak"
    thoughts = EXPERIMENTS / "runs-long-thoughts"
    for folder in (FOLDER, STUBBORN, SPIRAL, EXPERIMENTS / "runs-constant", peak, thoughts):
        assert acceleration_table(folder, ["grpo"]) in page
        assert drop_table(folder, ["grpo"]) in page
    for folder in (SPIRAL, FOLDER, thoughts):
        assert gwhes_action_table(folder, ["grpo"]) in page
    for folder in (FOLDER, STUBBORN, SPIRAL, EXPERIMENTS / "runs-constant", peak):
        assert fair_table(folder) in page
    for folder in (SPIRAL, EXPERIMENTS / "runs-constant"):
        assert question_table(folder, ["grpo"]) in page
    release = EXPERIMENTS / "runs-release"
    for found in (gwhes_table, gwhes_action_table, question_table, lambda folder, _: course_table(folder, "grpo")):
        assert found(release, ["grpo"]) in page
    assert table(release, RATES) in page
    for found in (table, drift_table, gwhes_table, gwhes_action_table, lambda folder, _: course_table(folder, "grpo")):
        assert found(peak, ["grpo"]) in page
    assert table(peak, ["llds-0.01", "llds-0.1", "llds-release"]) in page
    assert table(thoughts, ["grpo"]) in page
    assert course_table(thoughts, "grpo") in page
    assert question_table(thoughts, ["grpo"]) in page
    for folder in (peak, thoughts):
        assert first_action_table(folder, ["grpo"]) in page
    for folder in (peak, release, SPIRAL, FOLDER):
        assert fall_by_gwhes_table(folder, ["grpo"]) in page
    assert course_table(peak, "llds-release") in page
    pilot = EXPERIMENTS.parent / "probes" / "runs-pretrained"
    assert pilot_table(pilot, ARMS) in page
    short = EXPERIMENTS.parent / "probes" / "runs-pretrained-short"
    assert pilot_table(short, PROBE_ARMS) in page
    assert common_steps_table(short, PROBE_ARMS) in page
    on_two_cores = EXPERIMENTS.parent / "probes" / "runs-pretrained-cpu"
    assert pilot_table(on_two_cores, PROBE_ARMS) in page
    assert common_steps_table(on_two_cores, PROBE_ARMS) in page
    assert sweep_table(on_two_cores, ["grpo-sweep-short"]) in page
    assert gwhes_action_table(on_two_cores, ["grpo-sweep-short"]) in page
    unbiased = EXPERIMENTS.parent / "probes" / "runs-release-peak"
    assert table(unbiased, CATALOGUE["unbiased"].arms) in page
    assert gwhes_action_table(pilot, ["grpo"]) in page
    assert paper_table(STUBBORN) in page
    assert eval_table(STUBBORN, ARMS) in page
    assert searches_table(STUBBORN, ARMS) in page


def test_what_lowers_held_out_responses_is_documented_as_it_was_recorded():
    """docs/experiments/mechanism.md has the output of `experiments decomposition` for docs/probes."""
    page = (EXPERIMENTS / "mechanism.md").read_text(encoding="utf-8")
    for name in ("runs", "runs-spiral", "runs-stubborn", "runs-constant", "runs-release-peak"):
        found = held_out_table(EXPERIMENTS.parent / "probes" / name, ["grpo-decompose"])
        assert found.count("| grpo-decompose |") == 3
        assert found in page
        assert origin_table(EXPERIMENTS.parent / "probes" / name, ["grpo-decompose"]) in page


def test_incorrect_siblings_lower_a_correct_response_and_its_group_raises_it_as_the_page_says():
    """In the later thirds of five regimes, more than any other part; in the authors' schedule hardly."""
    probes = EXPERIMENTS.parent / "probes"
    swept = {"runs-long-thoughts", "runs-release"}
    for name in ("runs", "runs-spiral", "runs-stubborn", "runs-constant", "runs-release-peak", *swept):
        arm = "grpo-sweep" if name in swept else "grpo-decompose"
        lines = origin_table(probes / name, [arm]).splitlines()[2:]
        for line in lines:
            cells = [cell.strip().replace("−", "-") for cell in line.split("|")[2:-1]]
            own, negatives, others, _, earlier, remainder = map(float, cells[3:])
            assert own + negatives > 0
            if name in {"runs-release-peak", "runs-release"}:
                assert negatives > -0.01
            elif cells[0] != "early":
                assert negatives < min(-0.09, others, earlier, remainder)


def test_the_order_of_figure_7_is_counted_as_the_page_says():
    """The norm has hardly grown at the first fall in 21 of 25 runs, and grows by half or more afterwards in 15."""
    regimes = (FOLDER, STUBBORN, SPIRAL, EXPERIMENTS / "runs-constant", EXPERIMENTS / "runs-long-thoughts")
    lines = [line for folder in regimes for line in drop_table(folder, ["grpo"]).splitlines()[2:]]
    norms = [[float(cell) for cell in line.split("|")[4:7]] for line in lines]
    assert len(norms) == 25
    calm = [(at, largest) for before, at, largest in norms if at <= 1.3 * before]
    assert len(calm) == 21
    assert sum(largest >= 1.5 * at for at, largest in calm) == 15


def test_displacement_accelerates_in_most_healthy_runs_as_well(capsys):
    """The control of the table of Def. 5.1 in mechanism.md: the order of blocks predicts no collapse."""
    table_of_healthy = acceleration_table(EXPERIMENTS / "healthy", HEALTHY)
    assert (table_of_healthy.count(" to −0.000 |"), table_of_healthy.count("| none |")) == (21, 6)
    assert main(["healthy", "--draw-only"]) == 0
    assert table_of_healthy in capsys.readouterr().out
    assert main(["evidence", "--preset", "constant", "--arms", "half-lr", "nthr"]) == 0
    kept_alive = acceleration_table(EXPERIMENTS / "runs-constant", ["half-lr", "nthr"])
    assert (kept_alive.count(" to "), kept_alive.count("| – |")) == (20, 10)
    assert kept_alive in capsys.readouterr().out


def test_the_runs_with_a_sweep_are_documented_as_they_were():
    """docs/experiments/mechanism.md has the output of `experiments multipliers` for docs/probes."""
    page = (EXPERIMENTS / "mechanism.md").read_text(encoding="utf-8")
    probes = EXPERIMENTS.parent / "probes"
    names = ("runs-spiral", "runs-constant", "runs-long-thoughts", "runs-release-peak", "runs-release")
    whole = [probes / name for name in names]
    for swept in (probes / "runs-stubborn", probes / "runs-constant"):
        assert gwhes_action_table(swept, ["grpo-sweep"]) in page
    for swept in (probes / "runs-stubborn", probes / "runs", *whole):
        assert sweep_table(swept, ["grpo-sweep"]) in page
        assert decomposition_table(swept, ["grpo-sweep"]) in page
    for swept in (probes / "runs", *whole):
        assert momentum_table(swept, ["grpo-sweep"]) in page
    for swept in (probes / "runs-long-thoughts", probes / "runs-release"):
        assert origin_table(swept, ["grpo-sweep"]) in page


def test_the_runs_with_split_groups_are_documented_as_they_were():
    """docs/experiments/mechanism.md has the output of `experiments siblings` for docs/probes."""
    page = (EXPERIMENTS / "mechanism.md").read_text(encoding="utf-8")
    for name in ("runs", "runs-spiral"):
        split = EXPERIMENTS.parent / "probes" / name
        assert table(split, ["grpo-split"]) in page
        assert siblings_table(split, ["grpo-split"]) in page
