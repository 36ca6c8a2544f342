"""The wait for the next turn."""

from concurrent.futures import ThreadPoolExecutor

from monitor_server.step_processing.scheduling.run_turns import RunTurns
from tests.live import PATIENCE_SECONDS


def test_a_wait_for_a_turn_ends_with_a_run_or_with_the_last_turn():
    """A projector without work stops at once, also if it was told to before it began to wait."""
    turns = RunTurns(1)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(turns.next, timeout=2 * PATIENCE_SECONDS)
        turns.add(["a"])
        assert waiting.result(PATIENCE_SECONDS) == "a"
        waiting = threads.submit(turns.next, timeout=2 * PATIENCE_SECONDS)
        turns.close()
        assert waiting.result(PATIENCE_SECONDS) is None
        assert threads.submit(turns.next, timeout=2 * PATIENCE_SECONDS).result(PATIENCE_SECONDS) is None
