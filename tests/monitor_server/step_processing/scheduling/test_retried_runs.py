"""Runs whose slice has failed are tried again in the smallest slices."""

from collections import Counter, deque

from monitor_server.step_processing.scheduling import retried_runs
from monitor_server.step_processing.scheduling.retried_runs import RetriedRuns


def test_a_run_is_tried_again_once_and_fails_for_good_in_a_smallest_slice():
    """After that its next failure, such as at the end of its quarantine, begins anew."""
    runs = RetriedRuns()
    assert [runs.note_failure("r") for _ in range(3)] == [True, False, True]
    assert "r" in runs


def test_a_run_goes_on_as_usual_after_its_smallest_slices(monkeypatch):
    """Either as many as a usual slice has, or all that waited."""
    monkeypatch.setattr(retried_runs, "SMALLEST_SLICES", 2)
    runs = RetriedRuns()
    runs.note_failure("r")
    runs.note_success("r", has_more=True)
    assert "r" in runs
    runs.note_success("r", has_more=True)
    assert "r" not in runs
    runs.note_failure("r")
    runs.note_success("r", has_more=False)
    assert len(runs) == 0


def test_more_failing_runs_than_are_remembered_are_all_given_up(monkeypatch):
    """A defect may concern all runs: they fail one after the other, and each comes to its end."""
    monkeypatch.setattr(retried_runs, "MAX_RUNS", 3)
    runs, queue = RetriedRuns(), deque("abcde")
    failures = Counter()
    while queue:
        run = queue.popleft()
        failures[run] += 1
        assert failures[run] <= 2
        if runs.note_failure(run):
            queue.append(run)
        assert len(runs) <= 3
    assert len(runs) == 0
