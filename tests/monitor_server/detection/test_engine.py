"""The engine and its phases on small runs made by seed: order, rewinds, staleness, golden steps."""

import dataclasses
import json
import math

import pytest

from monitor_server.detection.base_classes.held_findings import HeldFindings
from monitor_server.detection.detectors.joint_departure import JointDeparture
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Acknowledgement, DriftInput, Finding, Observation, Phase, Severity
from monitor_server.detection.statistics.state import Stateful
from tests.monitor_server.detection.spirals import GOLDEN, first_steps, spiral


def phases_of(run):
    """Return the phases a run goes through, in order."""
    engine, seen = Engine(), []
    for observation in run:
        phase = engine.update(observation).phase
        if not seen or seen[-1] != phase:
            seen.append(phase)
    return seen


def test_a_spiral_goes_through_the_phases_in_order():
    """Drift warns, acceleration pages, collapse is found, each before the next."""
    first = first_steps(spiral())
    drift = first["likelihood_drift", "warning"]
    page = first["death_spiral", "critical"]
    dead = first["run_collapsed", "critical"]
    assert 60 < drift < page < dead
    order = [p for p in phases_of(spiral()) if p not in (Phase.HEALTHY, Phase.STAGNATION)]
    assert order == [Phase.WARMUP, Phase.DECAY, Phase.ACCELERATION, Phase.COLLAPSED]


def test_the_alarm_steps_of_a_recorded_run_stand_still():
    """Golden steps of the run of seed 3: drift from 60, acceleration from 110. They change with the rules only."""
    assert first_steps(spiral()) == GOLDEN


def test_without_the_paired_channel_it_warns_later_but_before_the_collapse():
    """Likelihood and entropy alone still warn and page before the run is dead."""
    with_paired, without = first_steps(spiral()), first_steps(spiral(paired=False))
    assert with_paired["likelihood_drift", "warning"] < without["likelihood_drift", "warning"]
    assert without["death_spiral", "critical"] < without["run_collapsed", "critical"]


def test_runs_without_drift_are_hardly_ever_warned_and_never_paged():
    """Of twenty benign runs of 160 steps whose entropy wanders, at most two warn; none pages."""
    benign = [first_steps(spiral(drift_at=10**6, surge_at=10**6, seed=seed)) for seed in range(20)]
    assert sum(any(severity == "warning" for _, severity in first) for first in benign) <= 2
    assert not any(severity == "critical" for first in benign for _, severity in first)


def test_nan_in_the_gradient_is_a_page_at_once():
    """The critical finding is at the step of the NaN, and the phase is collapsed."""
    engine = Engine()
    engine.update(Observation(step=1, signals={"grad/norm": 1.0}))
    assessment = engine.update(Observation(step=2, signals={"grad/norm": math.nan}))
    assert [(f.kind, f.severity, f.step) for f in assessment.findings] == [("non_finite", Severity.CRITICAL, 2)]
    assert assessment.phase is Phase.COLLAPSED


def test_a_rewind_to_before_the_onset_forgets_the_alarm():
    """A new attempt from step 20 on is judged afresh: collapsed ends, and the same spiral is found again."""
    engine = Engine()
    run = spiral()
    assert ("run_collapsed", "critical") in first_steps(run, engine)
    again = [Observation(step=o.step, signals=o.signals, attempt=2) for o in run[20:58]]
    assessments = [engine.update(observation) for observation in again]
    assert [f.kind for f in assessments[-1].findings if f.severity is not Severity.INFO] == []


def test_a_rollback_to_the_step_before_the_page_ends_the_page():
    """The last healthy checkpoint may lie after the onset; its weights are not those that were paged."""
    engine, run = Engine(), spiral()
    paged = next(o for o in run if engine.update(o).phase is Phase.ACCELERATION).step
    resumed = Observation(step=paged - 1, signals=run[30].signals, attempt=2)
    assert engine.update(resumed).phase is not Phase.ACCELERATION


@pytest.mark.parametrize("seed", range(6))
def test_the_statistic_of_a_page_is_beyond_the_threshold_it_names(seed):
    """Whichever rule opened it, the evidence has the value that was too large and its threshold."""
    engine = Engine()
    assessments = [engine.update(observation) for observation in spiral(seed=seed)]
    opened = next(f for assessment in assessments for f in assessment.findings if f.kind == "death_spiral")
    assert opened.score > opened.threshold
    assert opened.evidence["rule"] == opened.evidence["opened_by"]


def test_a_resume_after_the_page_keeps_it():
    """A process that continues with the same weights is still in acceleration."""
    engine, run = Engine(), spiral()
    paged = next(o for o in run if engine.update(o).phase is Phase.ACCELERATION).step
    resumed = Observation(step=paged + 1, signals=run[30].signals, attempt=2)
    assert engine.update(resumed).phase is Phase.ACCELERATION


def held_page():
    """Return an engine whose page is only held: the run was paged, then returned to its earlier level."""
    engine, run = Engine(), spiral()
    paged = next(o for o in run if engine.update(o).phase is Phase.ACCELERATION).step
    calm = [Observation(step=paged + 1 + n, signals=o.signals) for n, o in enumerate(run[20:40])]
    assert all(engine.update(o).phase is Phase.ACCELERATION for o in calm)
    return engine, paged, calm[-1].step


def test_the_text_of_a_held_page_claims_no_surge():
    """The gradient is back, and the page is held."""
    engine, paged, last = held_page()
    found = engine.update(Observation(step=last + 1, signals=spiral()[41].signals)).findings
    (page,) = [finding for finding in found if finding.kind == "death_spiral"]
    assert page.evidence["rule"] == "held"
    assert page.summary.startswith(f"The spiral that opened at step {paged} is held: ")
    assert "surges" not in page.summary


def test_a_held_page_ends_when_a_person_acknowledges_it():
    """Acceleration latches; an acknowledgement ends it at the next step, and a second one changes nothing."""
    engine, _, last = held_page()
    for _ in range(2):
        engine.acknowledge(Acknowledgement(kind="death_spiral", step=last))
    assessment = engine.update(Observation(step=last + 1, signals=spiral()[41].signals))
    assert assessment.phase is not Phase.ACCELERATION
    assert "death_spiral" not in {finding.kind for finding in assessment.findings}


@pytest.mark.parametrize(
    "acknowledged", [("death_spiral", -1, 1), ("death_spiral", 1000, 0), ("run_collapsed", 1000, 1)], ids=str
)
def test_an_acknowledgement_of_something_else_or_from_before_the_page_leaves_it(acknowledged):
    """An acknowledgement before the page, in an older attempt or of another alert does not count for this page."""
    engine, paged, last = held_page()
    kind, later, attempt = acknowledged
    engine.acknowledge(Acknowledgement(kind=kind, step=paged + later, attempt=attempt))
    assert engine.update(Observation(step=last + 1, signals=spiral()[41].signals)).phase is Phase.ACCELERATION


def test_an_acknowledged_page_stays_while_its_rule_is_met():
    """Knowing of a surge does not end it: the page goes on with the surge, and is the same page."""
    engine, run = Engine(), spiral()
    paged = next(o for o in run if engine.update(o).phase is Phase.ACCELERATION).step
    engine.acknowledge(Acknowledgement(kind="death_spiral", step=paged))
    assessments = [engine.update(observation) for observation in run if paged < observation.step < paged + 8]
    assert all("death_spiral" in {finding.kind for finding in assessment.findings} for assessment in assessments)


def test_a_replay_with_its_acknowledgements_is_the_run_bit_for_bit():
    """The same acknowledgement after the same step, also after a restart from JSON, gives the same state."""
    live, replayed = Engine(), Engine()
    run = spiral(rows=200)
    for observation in run:
        found = [repr(engine.update(observation)) for engine in (live, replayed)]
        assert found[0] == found[1]
        if observation.step % 25 == 0:
            replayed = Engine.from_state(json.loads(json.dumps(replayed.state())))
            for engine in (live, replayed):
                engine.acknowledge(Acknowledgement(kind="death_spiral", step=observation.step))
    assert json.dumps(live.state()) == json.dumps(replayed.state())


def test_a_replaced_attempt_has_no_say():
    """Once attempt 2 has sent a step, later records of attempt 1 change nothing."""
    engine = Engine()
    for observation in spiral()[:40]:
        engine.update(Observation(step=observation.step, signals=observation.signals, attempt=2))
    before = json.dumps(engine.state())
    engine.update(Observation(step=500, signals={"grad/norm": math.nan}, attempt=1))
    assert json.dumps(engine.state()) == before


def test_without_likelihood_or_entropy_the_phase_is_unknown():
    """Reward and gradient alone never make a run healthy, and stale telemetry makes it unknown again."""
    engine = Engine()
    for step in range(30):
        phase = engine.update(Observation(step=step, signals={"reward/mean": 0.5, "grad/norm": 1.0})).phase
    assert phase is Phase.UNKNOWN
    phase = engine.update(Observation(step=30, signals={"entropy/mean": 0.5})).phase
    assert phase is Phase.HEALTHY
    for step in range(31, 37):
        phase = engine.update(Observation(step=step, signals={"reward/mean": 0.5})).phase
    assert phase is Phase.UNKNOWN


CHANNELS = {
    DriftInput.PAIRED: ("entropy/paired_delta", "entropy/mean", "likelihood/correct"),
    DriftInput.LIKELIHOOD: ("entropy/mean", "likelihood/correct"),
    DriftInput.ENTROPY: ("entropy/mean",),
    DriftInput.METRICS: (),
}


@pytest.mark.parametrize("drift_input", CHANNELS)
def test_it_says_no_more_than_what_is_observed_allows(drift_input):
    """Pairs and likelihoods warn of the drift, entropy alone informs, metrics alone leave the phase unknown."""
    kept = {*CHANNELS[drift_input], "grad/norm", "ratio/max", "reward/mean"}
    engine, seen, phases = Engine(), set(), set()
    for observation in spiral(surge_at=10**6):
        signals = {name: value for name, value in observation.signals.items() if name in kept}
        assessment = engine.update(Observation(step=observation.step, signals=signals))
        seen |= {(finding.kind, str(finding.severity)) for finding in assessment.findings}
        phases.add(assessment.phase)
        assert assessment.drift_input is drift_input
    assert (("likelihood_drift", "warning") in seen) is (drift_input in {DriftInput.PAIRED, DriftInput.LIKELIHOOD})
    assert (("entropy_drift", "info") in seen) is (drift_input is DriftInput.ENTROPY)
    assert (Phase.UNKNOWN in phases) is (drift_input is DriftInput.METRICS)
    assert not any(severity == "critical" for _, severity in seen)


def test_a_channel_that_falls_silent_is_missed_after_five_rows():
    """The drift input follows what is sent, so that a lost probe is not taken for a quiet one."""
    engine = Engine()
    for step, observation in enumerate(spiral()[:40]):
        dropped = {"entropy/paired_delta"} if step >= 30 else set()
        signals = {name: value for name, value in observation.signals.items() if name not in dropped}
        drift_input = engine.update(Observation(step=step, signals=signals)).drift_input
        assert drift_input is (DriftInput.LIKELIHOOD if step >= 35 else DriftInput.PAIRED)


CHANGED_DATA = {
    "joint_departure": {"entropy/mean": (0.3, 0.9), "length/mean": (200.0, 600.0)},
    "reward_hacking": {"reward/mean": (0.5, 0.5), "length/mean": (200.0, 20.0), "tools/calls": (1.5, 0.1)},
}


@pytest.mark.parametrize("kind", CHANGED_DATA)
def test_new_data_while_signals_have_departed_ends_the_finding(kind):
    """The baselines from which the signals departed are discarded, so the finding that compares with them ends too."""
    engine, levels = Engine(), CHANGED_DATA[kind]
    for step in range(17):
        noise = 1.0 + 0.03 * ((1, -1, -1, 1)[step % 4])
        signals = {name: (before if step < 12 else after) * noise for name, (before, after) in levels.items()}
        verdict = engine.update(Observation(step=step, signals=signals, data_version="easy"))
    assert kind in [finding.kind for finding in verdict.findings]
    verdict = engine.update(Observation(step=17, signals=signals, data_version="hard"))
    assert kind not in [finding.kind for finding in verdict.findings]


def test_a_run_that_names_its_data_only_once_is_assessed_as_one_that_names_them_in_each_step():
    """A step without a name has the data of the step before, so it restarts no baseline."""
    run = spiral(rows=150)
    named = [dataclasses.replace(row, data_version="easy") for row in run]
    assert first_steps([named[0], *run[1:]]) == first_steps(named) == first_steps(run)


def test_the_newest_position_which_all_detectors_share_is_saved_once():
    """The state is written after every slice; each detector had a copy of the distances of the newest rows."""
    engine = Engine()
    for row in range(1, 80):
        engine.update(Observation(step=row * row, signals={"reward/mean": 0.5, "grad/norm": 1.0}))
    state = json.loads(json.dumps(engine.state()))
    assert state["order"]["step"] == 79 * 79
    parts = [
        part for saved in state["detectors"].values() for part in (saved, *saved.values()) if isinstance(part, dict)
    ]
    assert not any(state["order"].keys() & part.keys() for part in parts)
    assert Engine.from_state(state).state() == state


def test_shared_mechanisms_are_saved_once_and_older_states_with_copies_continue():
    """Up to this version each of three detectors saved the mechanisms; the copies are passed over."""
    engine, run = Engine(), spiral()
    for observation in run[:120]:
        engine.update(observation)
    state = engine.state()
    readers = [state["detectors"][name] for name in ("joint_departure", "dead_environment")]
    assert [reader["mechanisms"] for reader in readers] == [{}, {}]
    for reader in readers:
        reader["mechanisms"] = state["detectors"]["run_collapsed"]["mechanisms"]
    older = Engine.from_state(json.loads(json.dumps(state)))
    assert [repr(older.update(o)) for o in run[120:]] == [repr(engine.update(o)) for o in run[120:]]


def objects_of(thing):
    """Yield all objects with a state that an object holds in any attribute, itself included."""
    if isinstance(thing, Stateful):
        yield thing
        thing = vars(thing)
    if isinstance(thing, dict):
        thing = thing.values()
    elif not isinstance(thing, list | tuple):
        return
    for part in thing:
        yield from objects_of(part)


def test_every_public_attribute_of_every_object_is_saved():
    """The names are those of the first object of a class, and no object has others when a run has collapsed."""
    engine = Engine()
    for observation in spiral():
        engine.update(observation)
    held = list(objects_of(vars(engine)))
    assert len(held) > 100
    for each in held:
        assert [name for name in vars(each) if name[0] != "_" and name not in each.state()] == []


def test_a_detector_alone_and_in_the_engine_has_the_same_findings():
    """Mechanisms, row order and skipped rows are shared in the engine; a detector by itself finds the same."""
    engine, alone = Engine(), JointDeparture()
    for observation in spiral():
        found = [f for f in engine.update(observation).findings if f.kind == "joint_departure"]
        assert repr(list(alone.update(observation))) == repr(found)


def test_an_engine_that_is_restored_before_a_row_without_any_signal_finds_what_another_one_finds():
    """An instrument's gap holds between comparisons, also in the first row after a restart."""
    engine = Engine()
    for step in range(4):
        engine.update(Observation(step=step, signals={"instrument/entropy_abs": 0.2}))
    restored, empty = Engine.from_state(json.loads(json.dumps(engine.state()))), Observation(step=4, signals={})
    assert [(finding.kind, finding.step) for finding in engine.update(empty).findings] == [("instrument_gap", 4)]
    assert repr(restored.update(empty)) == repr(engine.update(empty))
    assert restored.state() == engine.state()


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_signal_that_some_rows_lack_ends_no_finding(every):
    """A reward in every second or third row: the collapse is one page, and its phase does not change."""
    rows = []
    for step in range(160):
        reward = {"reward/mean": 0.6 if step < 100 else 0.02} if step % every == 0 else {}
        rows.append(Observation(step=step, signals={"grad/norm": 1.0 + 0.01 * (step % 5), **reward}))
    engine, found = Engine(), []
    for row in rows:
        engine = Engine.from_state(json.loads(json.dumps(engine.state())))
        found.append(engine.update(row))
    paged = [row.step for row in found if any(f.severity is Severity.CRITICAL for f in row.findings)]
    assert paged == list(range(paged[0], 160))
    assert {str(row.phase) for row in found[paged[0] :]} == {"collapsed"}


def test_a_page_is_not_interrupted_by_rows_that_lack_its_signal_if_another_detector_warns_of_its_kind():
    """The reward leaps and correct responses do not: of the two findings of a row, the most severe one is held."""
    engine, paged = Engine(), []
    for step in range(100):
        correct = 0.3 + 0.02 * (step % 9)
        reward = 3.0 if step >= 60 else 0.1 + 0.5 * correct
        signals = {"reward/mean": reward, "reward/correct_frac": correct} if step % 2 == 0 else {"lr": 1e-6}
        findings = engine.update(Observation(step=step, signals=signals)).findings
        if ("reward_hacking", Severity.CRITICAL) in [(each.kind, each.severity) for each in findings]:
            paged.append(step)
    assert paged == list(range(64, 100))


def test_a_finding_is_held_until_its_signal_returns_or_one_of_its_kind_is_as_severe():
    """Silent groups page; in the next rows only the likelihoods are sent, and warn of the same kind."""

    def finding(severity, signal):
        return Finding("reward_signal_dead", severity, 0, 1.0, 1.0, "It is.", {"signal": signal})

    held, page = HeldFindings(), finding(Severity.CRITICAL, "reward/zero_std_frac")
    warning, second = finding(Severity.WARNING, "likelihood/correct"), finding(Severity.CRITICAL, "likelihood/correct")
    with_groups, without = (
        Observation(step=0, signals=dict.fromkeys(names, 1.0))
        for names in (["reward/zero_std_frac"], ["likelihood/correct"])
    )
    assert list(held.update(with_groups, [page])) == [page]
    assert list(held.update(without, [warning])) == [page]
    assert list(held.update(without, [second])) == [second]
    assert list(held.update(with_groups, [page])) == [page]
    assert list(held.update(with_groups, [warning])) == [warning]


def test_a_finding_whose_signal_is_no_longer_sent_ends_after_25_rows():
    """The reward is never sent again: its loss is not observed any more, and not healthy either."""
    run = [Observation(step=step, signals={"reward/mean": 0.6 if step < 100 else 0.02}) for step in range(120)]
    run += [Observation(step=step, signals={"grad/norm": 1.0}) for step in range(120, 160)]
    engine = Engine()
    held = [step for step, row in enumerate(run) if any(f.kind == "run_collapsed" for f in engine.update(row).findings)]
    assert held == list(range(held[0], 119 + 25 + 1))
