"""A run that goes back to a checkpoint: rows that it replaces do not count, and those before them do."""

import dataclasses
import random

import pytest

from monitor_server.detection.base_classes.detector import DetectorGroup
from monitor_server.detection.base_classes.held_findings import HeldFindings
from monitor_server.detection.detectors.gradient_spike import GradientSpike
from monitor_server.detection.detectors.joint_departure import JointDeparture
from monitor_server.detection.detectors.kl_runaway import KlRunaway
from monitor_server.detection.detectors.likelihood_drift import LikelihoodDrift
from monitor_server.detection.detectors.paired_drift import PairedDrift
from monitor_server.detection.detectors.reward_hacking import RewardHacking
from monitor_server.detection.detectors.sudden_silence import SuddenSilence
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Finding, Observation, Phase, Severity
from monitor_server.detection.registry import DETECTORS
from monitor_server.detection.statistics.anchored import AnchoredDeparture
from monitor_server.detection.statistics.departure import Departure, Size
from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.rare_loss import RareLoss

ONSET, LAST = 30, 50


def drifting(step, *, since=ONSET, size=0.02, noise=None):
    """Return a row of a run whose entropy rises, and whose likelihood falls, from a step on."""
    gone = size * max(0, step - since)
    wobble = noise.gauss(0.0, 0.001) if noise else 0.001 * (-1) ** step
    return {
        "entropy/mean": 0.4 + gone + wobble,
        "likelihood/correct": -0.4 - gone + wobble,
        "entropy/paired_delta": (size if step > since else 0.0) + wobble,
    }


def feed(subject, steps, *, attempt=1, since=ONSET, size=0.02):
    """Update a detector or an engine with some steps, and return its findings for the last step."""
    said = ()
    for step in steps:
        said = subject.update(Observation(step=step, attempt=attempt, signals=drifting(step, since=since, size=size)))
    return said


def resume(subject, step):
    """Let a new process go on at a step, in which it measures nothing yet."""
    subject.update(Observation(step=step, attempt=2, signals={}))


@pytest.mark.parametrize("back_to", [ONSET + 3, ONSET + 10, LAST])
def test_what_was_summed_by_the_checkpoint_is_all_that_counts_after_a_rewind(back_to):
    """The sum and the rise are those of a run that never went further, for any replaced rows."""
    subject, straight = PairedDrift(), PairedDrift()
    feed(subject, range(LAST + 1))
    feed(straight, range(back_to))
    resume(subject, back_to)
    assert (subject.cusum.value, subject.rise) == (straight.cusum.value, straight.rise)
    assert subject.cusum.since == straight.cusum.since
    assert not subject.active


def test_a_rewind_further_back_than_the_trail_forgets_the_drift():
    """Of 100 rows of a drift the newest 64 are remembered one by one."""
    subject = PairedDrift()
    feed(subject, range(ONSET + 100))
    resume(subject, ONSET + 20)
    assert (subject.cusum.value, subject.rise, subject.cusum.since) == (0.0, 0.0, None)


@pytest.mark.parametrize(("every", "back_to"), [(2, 32), (2, 28), (1, 25), (1, 5)])
def test_each_value_of_the_paired_channel_counts_once_after_a_rewind(every, back_to):
    """The rise is the same where few or no values are left, whether the first scale was known by then or not."""
    rows = [
        Observation(step=step, signals={"entropy/paired_delta": 0.004 + 0.001 * (-1) ** step}) for step in range(50)
    ]
    rows = [row if not row.step % every else dataclasses.replace(row, signals={}) for row in rows]
    rewound, straight = PairedDrift(), PairedDrift()
    for row in rows:
        rewound.update(row)
        straight.update(row)
    for row in rows[back_to:]:
        rewound.update(dataclasses.replace(row, attempt=2))
    assert rewound.rise == pytest.approx(straight.rise)
    assert straight.rise > 0.09


def test_a_process_that_goes_on_at_the_next_step_keeps_the_drift():
    """Nothing is replaced."""
    subject = PairedDrift()
    feed(subject, range(LAST))
    before = subject.cusum.value, subject.rise, subject.cusum.since
    resume(subject, LAST)
    assert (subject.cusum.value, subject.rise, subject.cusum.since) == before
    assert subject.active


def test_levels_are_averaged_anew_after_a_rewind_and_compared_with_the_best_one_before():
    """A run that goes on at the level of the checkpoint has no drift, and one that drifts again is found."""
    well, worse = LikelihoodDrift(), LikelihoodDrift()
    for subject in (well, worse):
        without_pairs = [
            Observation(step=step, signals={n: v for n, v in drifting(step).items() if "paired" not in n})
            for step in range(LAST + 1)
        ]
        assert [subject.update(row) for row in without_pairs][-1]
    for subject, size in ((well, 0.0), (worse, 0.02)):
        found = [
            subject.update(
                Observation(
                    step=step,
                    attempt=2,
                    signals={n: v for n, v in drifting(step, size=size).items() if "paired" not in n},
                )
            )
            for step in range(ONSET + 5, ONSET + 45)
        ]
        assert not any(found[:7])  # the average settles
        assert bool(found[-1]) == (subject is worse)


def test_a_run_that_is_well_after_a_rollback_is_healthy_and_not_paged_for_what_was_taken_back():
    """It collapses, goes back to its last good checkpoint, drifts no more, and has two rows of violent ratios."""
    noise, engine = random.Random(4), Engine()  # noqa: S311 - synthetic telemetry

    def row(step, *, attempt, size):
        surge = 1.35 ** max(0, step - 44) if attempt == 1 else 3.0 if step in {62, 63} else 1.0
        signals = drifting(step, size=size, noise=noise) | {
            "grad/norm": 0.3 * surge * (1.0 + noise.gauss(0.0, 0.05)),
            "ratio/p999": 1.3 * surge * (1.0 + noise.gauss(0.0, 0.02)),
            "reward/mean": 0.6 + noise.gauss(0.0, 0.02),
        }
        return Observation(step=step, attempt=attempt, signals=signals)

    assert [engine.update(row(step, attempt=1, size=0.02)) for step in range(LAST + 1)][-1].phase is Phase.ACCELERATION
    after = [engine.update(row(step, attempt=2, size=0.0)) for step in range(ONSET + 2, ONSET + 60)]
    assert {assessment.phase for assessment in after[1:]} == {Phase.HEALTHY}
    assert not any(finding.kind in {"death_spiral", "likelihood_drift"} for each in after for finding in each.findings)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Departure(Size(factor=0.5)),
        lambda: AnchoredDeparture(Size(factor=2.0, least=0.1, rows=3)),
        lambda: RareLoss(0.6),
        lambda: History(length=60, lag=5),
    ],
    ids=["departure", "anchored", "rare loss", "history"],
)
def test_a_window_from_which_rows_are_taken_back_is_that_of_a_run_that_never_had_them(build):
    """Values, floor, first values and noise."""
    noise, rewound, straight = random.Random(1), build(), build()  # noqa: S311 - synthetic telemetry
    values = [noise.gauss(0.6, 0.05) for _ in range(20)]
    for window, fed in ((rewound, [*values, -3.0, 0.0, 9.0, 50.0]), (straight, values)):
        for value in fed:
            (window.append if isinstance(window, History) else window.update)(value)
    rewound.take_back(4, 20)
    of_a_row = {"score", "deviation"}
    assert {name: value for name, value in rewound.state().items() if name not in of_a_row} == {
        name: value for name, value in straight.state().items() if name not in of_a_row
    }


def collapse(noise, *, dead, reward=0.6):
    """Return the signals of one row of a healthy run, or of a run that is dead by all its signals."""
    return {
        "reward/mean": 0.0 if dead else reward + noise.gauss(0.0, 0.02),
        "entropy/mean": 3.0 if dead else 0.3 + noise.gauss(0.0, 0.01),
        "length/mean": 900.0 if dead else 100.0 + noise.gauss(0.0, 3.0),
        "grad/norm": 400.0 if dead else 0.4 + noise.gauss(0.0, 0.02),
        "kl/old": 2.0 if dead else 0.001,
        "reward/zero_std_frac": 1.0 if dead else 0.1,
        "likelihood/correct": -3.0 if dead else -0.3 + noise.gauss(0.0, 0.01),
        "likelihood/incorrect": -3.0 if dead else -1.3 + noise.gauss(0.0, 0.01),
    }


@pytest.mark.parametrize("stride", [1, 10])
def test_a_second_collapse_is_found_as_the_first_one_was_whatever_the_replaced_rows_held(stride):
    """The 20 dead rows that a rewind replaced are no baseline, of rows at every step and at every tenth."""
    noise = random.Random(2)  # noqa: S311 - synthetic telemetry
    engine, straight = Engine(), Engine()
    well = [collapse(noise, dead=False) for _ in range(60)]
    dead = [collapse(noise, dead=True) for _ in range(20)]

    def update(subject, row, signals, attempt):
        return subject.update(Observation(step=row * stride, attempt=attempt, signals=signals))

    for row, signals in enumerate(well[:40]):
        for subject in (engine, straight):
            update(subject, row, signals, 1)
    for row, signals in enumerate(dead, 40):
        update(engine, row, signals, 1)
    for row, signals in enumerate([*well[40:], *dead[:12]], 40):
        found = [update(subject, row, signals, 2) for subject in (engine, straight)]
        kinds = [{(each.kind, each.severity) for each in one.findings} for one in found]
        assert kinds[0] == kinds[1], row
        assert found[0].phase == found[1].phase
    assert found[0].phase is Phase.COLLAPSED


def test_a_rewind_replaces_as_many_rows_as_there_are_from_its_step_on_whatever_their_distances():
    """Steps at random distances, and several rewinds; the newest 64 rows are counted."""
    noise = random.Random(8)  # noqa: S311 - synthetic telemetry
    for distances in ([1], [10], [10] * 9 + [1], [1, 2], range(1, 30)):
        group, steps, step = DetectorGroup([]), [], 0
        for attempt in range(4):
            for _ in range(60):
                steps.append(step)
                group.update(Observation(step=step, attempt=attempt, signals={}))
                step += noise.choice(distances)
            step = noise.choice(range(steps[-40], step + 3))
            left = [each for each in steps if each < step]
            resumed = Observation(step=step, attempt=attempt + 1, signals={})
            assert group.count_replaced(resumed) == (len(steps) - len(left), len(left))
            steps = left


def test_a_gradient_spike_that_a_rewind_has_replaced_is_not_the_first_of_two():
    """The same bad batch is processed again, and then a second one."""
    subject = GradientSpike()
    rows = [*[0.5, 0.6, 0.4, 0.5] * 5, 150.0]
    for attempt, steps in ((1, range(21)), (2, range(20, 21))):
        for step in steps:
            found = subject.update(Observation(step=step, attempt=attempt, signals={"grad/norm": rows[step]}))
            assert not found
    assert subject.update(Observation(step=21, attempt=2, signals={"grad/norm": 150.0}))


@pytest.mark.parametrize(
    ("rows", "back_to", "again", "found"),
    [
        ([150.0, None], 17, [150.0], ["warning"]),  # the replaced row had no norm, and the first spike remains
        ([150.0, 0.5, 0.5], 17, [150.0], ["warning"]),
        ([150.0, 0.5, 0.5], 17, [0.5, 0.5, 150.0], []),
        ([150.0, 150.0, 300.0], 18, [0.5], ["warning"]),  # of two spikes of before, and no replaced one
        ([150.0, 150.0], 17, [150.0], ["warning"]),
        ([0.5, 150.0, 150.0], 17, [150.0], []),
    ],
)
def test_the_spikes_that_a_rewind_leaves_are_those_that_count(rows, back_to, again, found):
    """The findings after it are those of a run that never had the replaced rows."""
    normal = [0.5, 0.6, 0.4, 0.5] * 4
    rewound, straight = GradientSpike(), GradientSpike()
    for attempt, subject, fed in ((1, rewound, normal + rows), (1, straight, (normal + rows)[:back_to])):
        for step, norm in enumerate(fed):
            signals = {"entropy/mean": 1.0} if norm is None else {"grad/norm": norm}
            subject.update(Observation(step=step, attempt=attempt, signals=signals))
    rewound = GradientSpike.from_state(rewound.state())
    for step, norm in enumerate(again, start=back_to):
        row = Observation(step=step, attempt=2, signals={"grad/norm": norm})
        after = rewound.update(row)
        assert [(each.step, each.severity, each.score) for each in after] == [
            (each.step, each.severity, each.score) for each in straight.update(row)
        ]
    assert [each.severity for each in after] == found


def test_a_page_of_which_a_rewind_leaves_the_warning_is_a_warning():
    """The third spike, with advantages out of scale, made it a page, and is replaced."""
    subject = GradientSpike()
    rows = [{"grad/norm": norm, "advantage/mean_abs": 1.0} for norm in [0.5, 0.6, 0.4, 0.5] * 4 + [150.0, 150.0]]
    for step, signals in enumerate([*rows, {"grad/norm": 400.0, "advantage/mean_abs": 90.0}]):
        (*_, before) = [None, *subject.update(Observation(step=step, signals=signals))]
    (after,) = subject.update(Observation(step=18, attempt=2, signals=rows[0]))
    assert (before.severity, before.score, before.evidence["onset"]) == ("critical", 400.0, [17, 17])
    assert (after.severity, after.score, after.evidence["onset"]) == ("warning", 150.0, [17, 17])


def test_data_that_a_rewind_takes_back_are_other_data_when_they_are_named_again():
    """Each attempt names its data where they change, as do the rows of a checkpoint that itself names other data."""

    class CountingChanges(KlRunaway):
        changes = ()

        def _rebaseline(self):
            self.changes = *self.changes, self.step

    subject = CountingChanges()
    for attempt, steps in ((1, range(80)), (2, range(30, 60)), (3, range(50, 70)), (4, range(40, 45))):
        for step in steps:
            name = {0: "easy", 40: "hard"}.get(step)
            subject.update(Observation(step=step, attempt=attempt, signals={"kl/ref": 0.1}, data_version=name))
            restored = CountingChanges.from_state(subject.state())
            restored.changes, subject = subject.changes, restored
    assert subject.changes == (39, 39, 69)  # the newest step before; attempt 3 begins with the hard data of step 40


@pytest.mark.parametrize("rows", [0, 3])
def test_a_state_that_an_older_version_has_saved_continues_as_it_was(rows):
    """Each detector's part has the newest position, without the spans of the rows and what the channel has counted."""
    engine, back_to = Engine(), LAST - 4
    feed(engine, range(LAST))
    saved = engine.state()
    order = saved.pop("order")
    for part in saved["detectors"].values():
        for name in ("uncounted", "begun", "recent"):
            part.pop(name, None)
        part.update({name: order[name] for name in ("attempt", "step", "row_count", "stride")}, data_version=None)
    saved["detectors"]["gradient_spike"]["rows"] = 3
    saved["held"] = [held[:2] for held in saved["held"]]
    restored = Engine.from_state(saved)
    for attempt, steps in ((1, range(LAST, LAST + rows)), (2, range(back_to, LAST + 9))):
        for step in steps:
            row = Observation(step=step, attempt=attempt, signals=drifting(step))
            assert restored.update(row) == engine.update(row)


def test_a_best_reward_that_was_reached_in_replaced_rows_alone_is_none():
    """Somebody took back a policy that had found a shortcut: the honest reward after that is no collapse."""
    noise, engine = random.Random(3), Engine()  # noqa: S311 - synthetic telemetry
    for step in range(40):
        engine.update(Observation(step=step, signals=collapse(noise, dead=False)))
    for step in range(40, 60):
        engine.update(Observation(step=step, signals=collapse(noise, dead=False, reward=2.5)))
    for step in range(40, 90):
        signals = collapse(noise, dead=False) | {"length/mean": 100.0 if step < 60 else 160.0}  # another mechanism
        assessment = engine.update(Observation(step=step, attempt=2, signals=signals))
        assert not [each for each in assessment.findings if each.kind == "run_collapsed"], step


def test_a_run_that_begins_again_from_its_first_step_is_assessed_as_a_new_one():
    """Nothing of the attempt that it replaces is left."""
    noise, again, fresh = random.Random(4), Engine(), Engine()  # noqa: S311 - synthetic telemetry
    for step in range(60):
        again.update(Observation(step=step, signals=collapse(noise, dead=step > 40)))
    for step in range(30):
        row = Observation(step=step, attempt=2, signals=collapse(noise, dead=False))
        assert again.update(row) == fresh.update(row)
    assert again.state() == fresh.state()


def test_the_rows_before_a_rewind_are_counted_after_a_restart_too():
    """A saved state holds how many rows a rewind replaces."""
    noise, kept = random.Random(5), Engine()  # noqa: S311 - synthetic telemetry
    for step in range(50):
        kept.update(Observation(step=step, signals=collapse(noise, dead=step > 40)))
    restored = Engine.from_state(kept.state())
    for step in range(35, 80):
        row = Observation(step=step, attempt=2, signals=collapse(noise, dead=False))
        assert kept.update(row) == restored.update(row)
    assert kept.state() == restored.state()


@pytest.mark.parametrize("last", DETECTORS)
def test_an_engine_that_is_restored_before_a_rewind_takes_back_the_same_rows(last):
    """A database may return the parts of a state in any order."""
    engine = Engine()
    feed(engine, range(LAST + 1))
    saved = engine.state()
    parts = dict(sorted(saved["detectors"].items(), key=lambda part: part[0] == last))
    restored = Engine.from_state(saved | {"detectors": parts})
    for step in range(ONSET + 4, LAST + 10):
        row = Observation(step=step, attempt=2, signals=drifting(step))
        assert restored.update(row) == engine.update(row)


@pytest.mark.parametrize(("back_to", "holds"), [(70, True), (57, True), (56, False), (50, False)])
def test_an_alarm_holds_in_rows_without_its_signal_after_a_rewind_if_it_opened_before(back_to, holds):
    """Every fourth row has a reward; the page opens at step 56, and the new attempt begins without a reward."""
    noise, engine = random.Random(6), Engine()  # noqa: S311 - synthetic telemetry
    for step in range(72):
        signals = collapse(noise, dead=step >= 40)
        rewarded = {} if step % 4 else {"reward/mean": signals["reward/mean"]}
        before = engine.update(Observation(step=step, signals={"length/mean": signals["length/mean"]} | rewarded))
        assert ("run_collapsed" in [each.kind for each in before.findings]) == (step >= 56)
    restored = Engine.from_state(engine.state())
    after = engine.update(Observation(step=back_to, attempt=2, signals={"length/mean": 100.0}))
    assert ("run_collapsed" in [each.kind for each in after.findings]) == holds
    assert [each.step for each in after.findings if each.kind == "run_collapsed"] == [
        68 if back_to == 70 else 56
    ] * holds
    assert restored.update(Observation(step=back_to, attempt=2, signals={"length/mean": 100.0})) == after


@pytest.mark.parametrize(
    ("back_to", "holds"),
    [(55, ("critical", 54)), (52, ("critical", 50)), (50, ("warning", 10)), (11, ("warning", 10)), (10, None)],
)
def test_an_alarm_holds_after_a_rewind_as_it_was_found_before_the_replaced_rows(back_to, holds):
    """It opened at step 10 as a warning, and was critical from step 50 on; the newest row that has its signal is 54."""
    held = HeldFindings()
    for step in range(10, 56):
        severity = Severity.CRITICAL if step >= 50 else Severity.WARNING
        found = [Finding("reward_fall", severity, step, 2.0, 1.0, "", {"signal": "reward/mean"})] if step < 55 else []
        held.update(Observation(step=step, signals={"reward/mean": 0.0} if found else {}), found)
    held.take_back(back_to, 56 - back_to)
    after = held.update(Observation(step=back_to, attempt=2, signals={}), [])
    assert [(each.severity, each.step) for each in after] == ([holds] if holds else [])


def test_rows_without_the_signal_that_a_rewind_replaces_do_not_count():
    """A finding is kept for 25 rows without its signal, however often the process begins again at its checkpoint."""
    held = HeldFindings()
    found = [Finding("reward_fall", Severity.WARNING, 10, 2.0, 1.0, "", {"signal": "reward/mean"})]
    held.update(Observation(step=10, signals={"reward/mean": 0.0}), found)
    for attempt in range(1, 5):
        kept = [held.update(Observation(step=step, attempt=attempt, signals={}), []) for step in range(11, 31)]
        assert all(kept)
        held.take_back(11, 20)
    kept = [held.update(Observation(step=step, attempt=5, signals={}), []) for step in range(11, 40)]
    assert [bool(each) for each in kept] == [True] * 25 + [False] * 4


def test_a_departure_from_before_the_checkpoint_holds_although_its_window_has_lost_every_row():
    """A window has 46 rows, and as many are replaced; until there are 10 again, the level is the value of the row."""
    subject = KlRunaway()
    for step in range(70):
        found = subject.update(Observation(step=step, signals={"kl/ref": 9.0 if step >= 20 else 0.1}))
    onset = found[0].evidence["onset"]
    for step in range(24, 33):
        value = 7.0 + 0.01 * step
        (again,) = subject.update(Observation(step=step, attempt=2, signals={"kl/ref": value}))
        assert (again.evidence["baseline"], again.evidence["onset"]) == (0.1, onset)
        assert again.evidence["level"] == value


@pytest.mark.parametrize("back_to", [65, 75])
def test_a_silence_from_before_the_checkpoint_is_found_again_by_the_rows_before_it(back_to):
    """Every tenth row has the share; the rewind replaces more rows than shares are known."""
    subject = SuddenSilence()
    rows = [{"reward/zero_std_frac": 0.2 if step < 600 else 1.0} if step % 10 == 0 else {} for step in range(900)]
    for step in range(800):
        subject.update(Observation(step=step, signals=rows[step]))
    again = [Observation(step=step, attempt=2, signals=rows[step]) for step in range(10 * back_to, 900)]
    assert next((row.step for row in again if subject.update(row)), None) == 10 * back_to + 10


@pytest.mark.parametrize(
    ("build", "others", "well", "gone"),
    [
        (JointDeparture, {}, {"entropy/mean": 0.3, "length/mean": 100.0}, {"entropy/mean": 2.0, "length/mean": 900.0}),
        (
            RewardHacking,
            {"reward/mean": 0.5},
            {"length/mean": 100.0, "text/repetition": 0.1},
            {"length/mean": 9.0, "text/repetition": 0.9},
        ),
    ],
)
def test_a_finding_holds_after_a_rewind_that_took_back_the_numbers_of_its_summary(build, others, well, gone):
    """Only every second row has the signals, so the rewind takes back more values than the replaced rows had."""
    subject, back_to = build(), 17 if others else 15
    for step in range(20):
        signals = (gone if step >= 10 else well) if step % 2 == 0 else {}
        before = subject.update(Observation(step=step, signals=others | signals))
    (after,) = subject.update(Observation(step=back_to, attempt=2, signals=others))
    assert [finding.kind for finding in before] == [after.kind]
    assert after.evidence["baseline"] == (None if build is JointDeparture else well[after.evidence["signal"]])
    assert all(name in after.summary for name in after.evidence.get("scores", ()))
