"""The cost table is printed, and the state it measures does not grow."""

from benchmarks import detector_cost


def test_the_state_is_as_long_at_the_end_as_once_the_windows_are_full(capsys):
    """Two hundred and fifty steps: state within 2 %, every step timed, a table in ratios to the budget."""
    durations, early, late = detector_cost.measure(250)
    assert len(durations) == 250 - detector_cost.SETTLED
    assert min(durations) > 0.0
    assert late < 1.02 * early
    detector_cost.main(["--steps", "150"])
    assert "p99 / budget" in capsys.readouterr().out
