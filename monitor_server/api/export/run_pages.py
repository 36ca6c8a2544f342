"""Reads a run for an export: its heading, and its steps a page at a time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monitor_server.errors import Unavailable, UnknownRun
from monitor_server.store.database import Store
from monitor_server.store.encoding.stored_json import read_object
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import StoredAcknowledgement
from monitor_server.store.repositories.steps import Step

__all__ = ["EXPORT_VERSION", "Acknowledgements", "find_row", "heading_of", "require_unchanged", "step_pages"]

EXPORT_VERSION = 1
STEPS_PER_PAGE = 500

Acknowledgements = Mapping[tuple[int, int], Sequence[StoredAcknowledgement]]
"""The acknowledgements after a step, by the attempt and the step."""


def find_row(store: Store, run_id: str) -> dict[str, Any] | None:
    """Return the row of a run; None if the run has been deleted since its file was asked for."""
    with store.read() as reading:
        return reading.runs.row(run_id)


def heading_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields about a run itself that its file begins with."""
    fields = {name: row[name] for name in ("project", "source", "capability", "world_size", "ended", "started_at")}
    fields |= {"thinned": True} if row["has_thinned_steps"] else {}
    fields |= {"quarantined": True} if row["quarantined_at"] is not None else {}
    return {"run": row["name"]} | fields | {"config": read_object(row["config"] or b"{}")}


def step_pages(
    store: Store, run_id: str, heading: Mapping[str, Any]
) -> Iterator[tuple[int, Sequence[Step], Acknowledgements]]:
    """Yield the steps of a run in the order of detection, with the ordinal of their attempt.

    Raises:
        UnknownRun: If the run is deleted meanwhile.
        Unavailable: If one of its attempts is removed meanwhile, or it is thinned or quarantined.
    """
    given: dict[tuple[int, int], list[StoredAcknowledgement]] = {}
    with store.read() as reading:
        attempts = reading.attempts.ordinals(run_id)
        begun = reading.attempts.positions(run_id)
        for each in reading.alerts.acknowledgements(run_id):
            given.setdefault((each.attempt or 0, each.step or 0), []).append(each)
    for attempt, (ordinal, _) in attempts.items():
        begin = 0
        while True:
            with store.read() as reading:
                require_unchanged(reading, run_id, begun, heading)
                steps = reading.steps.of_attempt(run_id, attempt, from_step=begin, limit=STEPS_PER_PAGE)
            if not steps:
                break
            yield ordinal, steps, given
            begin = steps[-1].step + 1


def require_unchanged(reading: Repositories, run_id: str, begun: Mapping[int, int], heading: Mapping[str, Any]) -> None:
    """Raise an error where a run has lost what its file began with; ``begun`` has the positions of its attempts."""
    row = reading.runs.row(run_id)
    if row is None or row["started_at"] != heading["started_at"]:
        raise UnknownRun.by_id(run_id)
    if row["has_thinned_steps"] and "thinned" not in heading:
        raise Unavailable(f"the steps of run {run_id} were thinned while it was exported; export it again")
    if row["quarantined_at"] is not None and "quarantined" not in heading:
        raise Unavailable(f"the run {run_id} was quarantined while it was exported; export it again")
    if not begun.items() <= reading.attempts.positions(run_id).items():
        raise Unavailable(f"the run {run_id} was reset while it was exported; export it again")
