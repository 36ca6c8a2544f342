"""Notes what a callback could not read from the collector: the browser then says so, and asks again."""

from contextvars import ContextVar

__all__ = ["note_failure", "watch_failures"]

_failures: ContextVar[list[str]] = ContextVar("rlvitals_failures")


def watch_failures() -> list[str]:
    """Return the list to which failures of the request that is being answered are added, those of its tasks too."""
    failures: list[str] = []
    _failures.set(failures)
    return failures


def note_failure(problem: str) -> None:
    """Add what the collector did not answer, where somebody watches."""
    _failures.get([]).append(problem)
