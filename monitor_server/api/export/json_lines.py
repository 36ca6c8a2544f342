"""Writes runs as JSON lines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monitor_server.api.export.run_pages import (
    EXPORT_VERSION,
    find_row,
    heading_of,
    require_unchanged,
    step_pages,
)
from monitor_server.api.schemas import alert_item
from monitor_server.store.database import Store
from monitor_server.store.repositories.alerts import StoredAcknowledgement
from monitor_server.store.repositories.steps import Step
from trainer_hooks.wire import spell_non_finite

__all__ = ["export_jsonl"]

ALERTS_PER_PAGE = 200


def export_jsonl(store: Store, run_ids: Sequence[str]) -> Iterator[bytes]:
    """Yield runs one after the other, each with a line for itself, its steps, acknowledgements, phases and alerts."""
    for run_id in run_ids:
        row = find_row(store, run_id)
        if row is None:
            continue
        heading = heading_of(row)
        yield _line({"rlvitals_export": EXPORT_VERSION} | heading)
        for attempt, steps, acknowledgements in step_pages(store, run_id, heading):
            yield b"".join(_step_line(step, attempt, acknowledgements.get((step.attempt, step.step))) for step in steps)
        yield from _findings(store, run_id, heading)


def _step_line(step: Step, attempt: int, acknowledgements: Sequence[StoredAcknowledgement] | None) -> bytes:
    fields: dict[str, Any] = {"step": step.step, "attempt": attempt, "time": step.time}
    if step.policy_version is not None:
        fields["policy_version"] = step.policy_version
    if step.data_version is not None:
        fields["data_version"] = step.data_version
    if acknowledgements:
        names = ("kind", "alert_id", "at", "by", "note")
        fields["acknowledged"] = [{name: getattr(each, name) for name in names} for each in acknowledgements]
    return _line(fields | {"signals": dict(step.signals)})


def _findings(store: Store, run_id: str, heading: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the phases and the alerts of a run, which a reader of the steps finds again by itself."""
    with store.read() as reading:
        require_unchanged(reading, run_id, {}, heading)
        phases = reading.phases.all(run_id)
    for phase, first, last in phases:
        yield _line({"phase": phase, "from_step": first, "to_step": last})
    before = None
    while True:
        with store.read() as reading:
            rows = reading.alerts.page(limit=ALERTS_PER_PAGE, run_id=run_id, before=before)
        for row in rows:
            yield _line({"alert": json.loads(alert_item(row).model_dump_json())})
        if len(rows) < ALERTS_PER_PAGE:
            return
        before = rows[-1]["number"]


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(spell_non_finite(fields), allow_nan=False).encode() + b"\n"
