"""Verdicts that were read from the store a moment ago."""

import pytest

from monitor_server.alerts.verdict import MAX_RECENT_VERDICTS, RecentVerdicts, Verdict
from tests.monitor_server.conftest import StepClock

HEALTHY = Verdict(attempt=1, step=3, phase="healthy", alerts=[])


def test_a_verdict_that_was_read_is_kept_for_a_moment():
    """It is found until its time is over."""
    clock = StepClock()
    recent = RecentVerdicts(seconds=0.5, clock=clock)
    assert recent.find("r") is None
    recent.keep("r", HEALTHY)
    clock.now += 0.4
    assert recent.find("r") == HEALTHY
    clock.now += 0.2
    assert recent.find("r") is None


@pytest.mark.parametrize("read", [None, Verdict(attempt=1, step=None, phase="unknown", alerts=[])])
def test_that_a_run_has_no_verdict_yet_is_kept_for_a_moment_as_well(read):
    """While the projector is behind, receipts do not read the database each."""
    clock = StepClock()
    recent = RecentVerdicts(seconds=0.5, clock=clock)
    assert not recent.is_recent("r")
    recent.keep("r", read)
    assert recent.is_recent("r")
    assert recent.find("r") == read
    clock.now += 0.5
    assert not recent.is_recent("r")
    assert recent.find("r") is None


def test_the_verdicts_that_were_read_are_bounded():
    """The one that was read first is dropped."""
    recent = RecentVerdicts(clock=StepClock())
    for number in range(MAX_RECENT_VERDICTS + 1):
        recent.keep(str(number), HEALTHY)
    assert recent.find("0") is None
    assert recent.find("1") == HEALTHY
