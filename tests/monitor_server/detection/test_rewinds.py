"""A run that goes back to a checkpoint: rows that it replaces do not count, and those before them do."""

import random

import pytest

from monitor_server.detection.detectors.likelihood_drift import LikelihoodDrift
from monitor_server.detection.detectors.paired_drift import PairedDrift
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation, Phase

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
    """Update a detector or an engine with some steps, and return what it said of the last."""
    said = ()
    for step in steps:
        said = subject.update(Observation(step=step, attempt=attempt, signals=drifting(step, since=since, size=size)))
    return said


@pytest.mark.parametrize("back_to", [ONSET + 3, ONSET + 10, LAST])
def test_what_was_summed_by_the_checkpoint_is_all_that_counts_after_a_rewind(back_to):
    """The sum and the rise are those of a run that never went further, whatever the replaced rows held."""
    subject, straight = PairedDrift(), PairedDrift()
    feed(subject, range(LAST + 1))
    feed(straight, range(back_to))
    subject._resume(back_to)
    assert (subject.cusum.value, subject.rise) == (straight.cusum.value, straight.rise)
    assert subject.cusum.since == straight.cusum.since
    assert not subject.active


def test_a_rewind_further_back_than_the_trail_forgets_the_drift():
    """Of 100 rows of a drift the newest 64 are remembered one by one."""
    subject = PairedDrift()
    feed(subject, range(ONSET + 100))
    subject._resume(ONSET + 20)
    assert (subject.cusum.value, subject.rise, subject.cusum.since) == (0.0, 0.0, None)


def test_a_process_that_goes_on_at_the_next_step_keeps_the_drift():
    """Nothing is replaced."""
    subject = PairedDrift()
    feed(subject, range(LAST))
    before = subject.state()
    subject._resume(LAST)
    assert subject.state() == before
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
