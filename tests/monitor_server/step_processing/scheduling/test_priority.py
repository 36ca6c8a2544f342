"""The pauses of the projector for ingest."""

import pytest

from monitor_server.step_processing.scheduling.priority import MAX_PAUSE_SECONDS, IngestPriority
from tests.monitor_server.conftest import StepClock

STEP_SECONDS = 0.001


class Ingest:
    """Ingest that is always busy, and uses a share of a core meanwhile."""

    def __init__(self, share):
        self.share = share
        self.clock, self.processor = StepClock(0.0), StepClock(0.0)
        self.paused = self.longest = 0.0

    def wait_until_idle(self, seconds):
        """Let the time pass, and use the processor meanwhile."""
        self.clock.now += seconds
        self.processor.now += self.share * seconds
        self.paused += seconds
        self.longest = max(self.longest, seconds)
        return False


def _share_of_projector(ingest, *, steps=2_000):
    """Return the share of the time in which the projector has worked, after some steps to become used to ingest."""
    priority = IngestPriority(ingest.wait_until_idle, clock=ingest.clock, processor_clock=ingest.processor)
    for step in range(steps):
        if step == steps // 2:
            begin, ingest.paused = ingest.clock.now, 0.0
        ingest.clock.now += STEP_SECONDS
        ingest.processor.now += STEP_SECONDS
        priority.give_way()
    return 1 - ingest.paused / (ingest.clock.now - begin)


@pytest.mark.parametrize(
    ("share", "wanted"), [(0.0, 0.91), (0.3, 0.49), (0.5, 0.25), (0.8, 0.1), (1.0, 0.1), (1.7, 0.1)]
)
def test_the_projector_works_for_what_ingest_leaves_of_a_core(share, wanted):
    """Batches that wait for the disk cost it nothing; busy threads leave it a tenth at least."""
    assert _share_of_projector(Ingest(share)) == pytest.approx(wanted, abs=0.02)


def test_a_pause_is_bounded():
    """The projector may have worked for any time."""
    ingest = Ingest(1.0)
    priority = IngestPriority(ingest.wait_until_idle, clock=ingest.clock, processor_clock=ingest.processor)
    for _ in range(50):
        ingest.clock.now += 10.0
        priority.give_way()
    assert ingest.longest == pytest.approx(MAX_PAUSE_SECONDS)


def test_the_projector_pauses_again_when_ingest_becomes_busy():
    """Earlier measurements count less with each pause."""
    ingest = Ingest(0.0)
    priority = IngestPriority(ingest.wait_until_idle, clock=ingest.clock, processor_clock=ingest.processor)
    for step in range(2_000):
        if step == 1_000:
            ingest.share = 0.9
        ingest.clock.now += STEP_SECONDS
        priority.give_way()
        if step == 1_900:
            begin, ingest.paused = ingest.clock.now, 0.0
    assert ingest.paused / (ingest.clock.now - begin) == pytest.approx(0.9, abs=0.02)
