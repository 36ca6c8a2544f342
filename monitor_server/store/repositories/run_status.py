"""The status of a run, once as a function and once as SQL; a test compares the two."""

from typing import Final, Protocol

from sqlalchemy import ColumnElement, and_, case

from monitor_server.settings import Deadlines
from monitor_server.store.tables import runs

__all__ = [
    "ACTIVE",
    "ENDED",
    "REPORTED_END",
    "SILENT",
    "HeardRun",
    "is_active_column",
    "is_live_column",
    "run_status",
    "status_column",
]


ACTIVE = ("running", "stalled")
"""The statuses of a run whose trainer sends, as far as the collector can see."""
SILENT = ("stalled", "lost")
"""The statuses of a run that has made no step, or was not heard of at all, within its deadlines."""
ENDED = ("finished", "stopped")
"""The statuses of a run whose trainer is not expected to send any more."""

REPORTED_END: Final = case(
    (runs.c.ended.is_not(None), runs.c.ended), (runs.c.given_up_at >= runs.c.last_seen, "stopped")
)
"""The end of a run that its trainer or a person has reported, or null, as an expression on the table of runs."""


class HeardRun(Protocol):
    """The values that determine the status of a run, beside the time."""

    ended: str | None
    given_up_at: float | None
    last_seen: float
    last_step_at: float
    stall_seconds: float


def run_status(run: HeardRun, *, now: float, deadlines: Deadlines) -> str:
    """Return the status of a run at ``now``: the one that the trainer or a person reported, otherwise by the clock.

    A run that a person gave up, or that was silent for long, is stopped until its trainer sends again.
    """
    silent_seconds = now - run.last_seen
    is_lost = silent_seconds > deadlines.lost_factor * run.stall_seconds
    if run.ended is not None:
        return run.ended
    if run.given_up_at is not None and run.given_up_at >= run.last_seen:
        return "stopped"
    if is_lost:
        return "stopped" if silent_seconds > deadlines.expiry_seconds else "lost"
    return "stalled" if now - run.last_step_at > run.stall_seconds else "running"


def status_column(now: float | ColumnElement[float], deadlines: Deadlines) -> ColumnElement[str]:
    """Return `run_status` as an expression on the table of runs."""
    is_lost = now - runs.c.last_seen > deadlines.lost_factor * runs.c.stall_seconds
    return case(
        (REPORTED_END.is_not(None), REPORTED_END),
        (and_(is_lost, now - runs.c.last_seen > deadlines.expiry_seconds), "stopped"),
        (is_lost, "lost"),
        (now - runs.c.last_step_at > runs.c.stall_seconds, "stalled"),
        else_="running",
    )


def is_active_column(now: float, deadlines: Deadlines) -> ColumnElement[bool]:
    """Return whether the trainer of a run sends, as an expression on the table of runs."""
    return status_column(now, deadlines).in_(ACTIVE)


def is_live_column(now: float, deadlines: Deadlines) -> ColumnElement[bool]:
    """Return whether a run has not ended, as an expression on the table of runs, whose unsettled rows have an index."""
    return ~runs.c.is_settled & status_column(now, deadlines).not_in(ENDED)
