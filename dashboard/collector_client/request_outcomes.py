"""Notes what became of the requests of a callback: the browser says what failed, and which text it need not keep."""

from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Outcomes", "note_failure", "note_saved", "watch_requests"]


@dataclass(slots=True)
class Outcomes:
    """What became of the requests of a callback.

    Attributes:
        has_failed: Whether the collector did not answer one of them.
        has_saved: Whether the collector has stored what one of them asked for.
    """

    has_failed: bool = False
    has_saved: bool = False


_outcomes: ContextVar[Outcomes] = ContextVar("rlvitals_outcomes")


def watch_requests() -> Outcomes:
    """Return what is noted about the request that is being answered, by its tasks too."""
    outcomes = Outcomes()
    _outcomes.set(outcomes)
    return outcomes


def note_failure() -> None:
    """Note that the collector did not answer a request."""
    _outcomes.get(Outcomes()).has_failed = True


def note_saved() -> None:
    """Note that the collector has stored something."""
    _outcomes.get(Outcomes()).has_saved = True
