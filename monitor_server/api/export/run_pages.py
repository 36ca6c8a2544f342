"""Reads a run for an export: as it is when its file begins, and its steps a page at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor_server.errors import Unavailable, UnknownRun
from monitor_server.store.database import Store
from monitor_server.store.encoding.stored_json import read_object
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.acknowledgements import StoredAcknowledgement
from monitor_server.store.repositories.steps import Step

__all__ = ["EXPORT_VERSION", "ExportedRun", "begin_run", "require_unchanged", "step_pages"]

EXPORT_VERSION = 1
STEPS_PER_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    """A run at the moment at which its file begins; what the run adds after that is not in the file.

    Attributes:
        id: Its id.
        heading: The fields about the run itself that its file begins with.
        begun: The position of the log at which each attempt began.
        attempts: The ordinal and the last step of each attempt that has steps, in the order of the attempts.
        acknowledgements: The acknowledgements after a step, by the attempt and the step.
    """

    id: str
    heading: Mapping[str, Any]
    begun: Mapping[int, int]
    attempts: Mapping[int, tuple[int, int]]
    acknowledgements: Mapping[tuple[int, int], Sequence[StoredAcknowledgement]]


def begin_run(reading: Repositories, run_id: str) -> ExportedRun | None:
    """Return a run as it is now; None if it has been deleted since its file was asked for."""
    row = reading.runs.row(run_id)
    if row is None:
        return None
    given: dict[tuple[int, int], list[StoredAcknowledgement]] = {}
    for each in reading.acknowledgements.of_run(run_id):
        given.setdefault((each.attempt or 0, each.step or 0), []).append(each)
    ranges = reading.steps.ranges(run_id)
    ordinals = reading.attempts.ordinals(run_id)
    return ExportedRun(
        id=run_id,
        heading=_heading(row),
        begun=reading.attempts.positions(run_id),
        attempts={each: (ordinal, ranges[each][1]) for each, (ordinal, _) in ordinals.items() if each in ranges},
        acknowledgements=given,
    )


def step_pages(store: Store, run: ExportedRun) -> Iterator[tuple[int, Sequence[Step]]]:
    """Yield the steps of a run in the order of detection, with the ordinal of their attempt.

    Raises:
        UnknownRun: If the run is deleted meanwhile.
        Unavailable: If one of its attempts is removed meanwhile, or it is thinned or quarantined.
    """
    for attempt, (ordinal, last) in run.attempts.items():
        begin = 0
        while begin <= last:
            with store.read() as reading:
                require_unchanged(reading, run)
                steps = reading.steps.of_attempt(run.id, attempt, from_step=begin, limit=STEPS_PER_PAGE)
            kept = [step for step in steps if step.step <= last]
            if not kept:
                break
            yield ordinal, kept
            begin = kept[-1].step + 1


def require_unchanged(reading: Repositories, run: ExportedRun) -> None:
    """Raise an error where a run has lost what its file began with."""
    row, heading = reading.runs.row(run.id), run.heading
    if row is None or row["started_at"] != heading["started_at"]:
        raise UnknownRun.by_id(run.id)
    if row["has_thinned_steps"] and "thinned" not in heading:
        raise Unavailable(f"the steps of run {run.id} were thinned while it was exported; export it again")
    if row["quarantined_at"] is not None and "quarantined" not in heading:
        raise Unavailable(f"the run {run.id} was quarantined while it was exported; export it again")
    # A number that is used again after a reset begins at a later position.
    if reading.attempts.count(run.id, begun_until=max(run.begun.values(), default=0)) < len(run.begun):
        raise Unavailable(f"the run {run.id} was reset while it was exported; export it again")


def _heading(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: row[name] for name in ("project", "source", "capability", "world_size", "ended", "started_at")}
    fields |= {"thinned": True} if row["has_thinned_steps"] else {}
    fields |= {"quarantined": True} if row["quarantined_at"] is not None else {}
    return {"run": row["name"]} | fields | {"config": read_object(row["config"] or b"{}")}
