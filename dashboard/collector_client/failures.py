"""Notes the requests of a callback that the collector did not answer; the browser then says so, and retries."""

from contextvars import ContextVar

__all__ = ["note_failure", "watch_failures"]

_failures: ContextVar[list[str]] = ContextVar("rlvitals_failures")


def watch_failures() -> list[str]:
    """Return the list to which failures of the request that is being answered are added, those of its tasks too."""
    failures: list[str] = []
    _failures.set(failures)
    return failures


def note_failure(problem: str) -> None:
    """Add a failure to the list of `watch_failures`, if there is one."""
    _failures.get([]).append(problem)
