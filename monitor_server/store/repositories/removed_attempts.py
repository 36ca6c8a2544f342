"""Attempts that a reset has removed, while rows of them are still stored.

The mark is a world size of 0, which no trainer can send. Readers leave out the rows of such an attempt; its number can
be used again once the rows are removed.
"""

from sqlalchemy import Column, ColumnElement, Select, select

from monitor_server.store.tables import attempts

__all__ = ["REMOVED", "is_kept", "is_of_kept_attempt", "kept_attempts", "removed_attempts"]

REMOVED = 0


def removed_attempts(run_id: ColumnElement[str] | str) -> Select[int]:
    """Select the numbers of a run's removed attempts."""
    return select(attempts.c.attempt).where(attempts.c.run_id == run_id, attempts.c.world_size == REMOVED)


def kept_attempts(run_id: ColumnElement[str] | str) -> Select[int]:
    """Select the numbers of the attempts that a run still has."""
    return select(attempts.c.attempt).where(attempts.c.run_id == run_id, attempts.c.world_size != REMOVED)


def is_kept(attempt: Column[int] | ColumnElement[int], run_id: ColumnElement[str] | str) -> ColumnElement[bool]:
    """Whether the attempt of a row is not removed."""
    return attempt.not_in(removed_attempts(run_id))


def is_of_kept_attempt(
    attempt: Column[int] | Column[int | None], run_id: ColumnElement[str] | str
) -> ColumnElement[bool]:
    """Whether the run still has the attempt of a row: earlier versions left rows of attempts that are gone."""
    return attempt.in_(kept_attempts(run_id))
