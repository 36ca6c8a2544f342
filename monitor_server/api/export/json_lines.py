"""Writes runs as JSON lines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from monitor_server.api.export.run_pages import (
    EXPORT_VERSION,
    ExportedRun,
    begin_run,
    require_unchanged,
    step_pages,
)
from monitor_server.api.schemas import alert_item
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.acknowledgements import StoredAcknowledgement
from monitor_server.store.repositories.steps import Step
from trainer_hooks.wire import spell_non_finite

__all__ = ["export_jsonl"]

ALERTS_PER_PAGE = 200
MOST_OPEN_ALERTS = 10_000  # a run has one open alert of a kind, and some hundred kinds at most

Phases = Sequence[tuple[str, int, int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    """The phases and alerts of a run at the moment at which its file begins.

    Only the alerts that were open are kept: the others are resolved and change no more, so they are read at the end.
    """

    phases: Phases
    open_alerts: Mapping[int, Mapping[str, Any]]
    newest_alert: int

    @classmethod
    def read(cls, reading: Repositories, run_id: str) -> Self:
        """Read them."""
        alerts = reading.alerts
        opened = [
            row
            for state in ("pending", "firing")
            for row in alerts.page(limit=MOST_OPEN_ALERTS, run_id=run_id, state=state)
        ]
        newest = alerts.page(limit=1, run_id=run_id)
        return cls(
            phases=reading.phases.all(run_id),
            open_alerts={row["number"]: row for row in opened},
            newest_alert=newest[0]["number"] if newest else 0,
        )


def export_jsonl(store: Store, run_ids: Sequence[str]) -> Iterator[bytes]:
    """Yield runs one after the other, each with a line for itself, its steps, acknowledgements, phases and alerts.

    A run is whole if a later place of the same export or the last line follows; otherwise the file was cut.
    """
    place = 0
    for run_id in run_ids:
        with store.read() as reading:
            run, findings = begin_run(reading, run_id), _Findings.read(reading, run_id)
        if run is None:
            continue
        place += 1
        yield _line({"rlvitals_export": EXPORT_VERSION, "place": place} | dict(run.heading))
        given = run.acknowledgements
        for attempt, steps in step_pages(store, run):
            yield b"".join(_step_line(step, attempt, given.get((step.attempt, step.step))) for step in steps)
        yield from _finding_lines(store, run, findings)
    if place:
        yield _line({"rlvitals_export_end": place})


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


def _finding_lines(store: Store, run: ExportedRun, findings: _Findings) -> Iterator[bytes]:
    """Yield the phases and the alerts of a run, which a reader of the steps finds again by itself."""
    for phase, first, last in findings.phases:
        yield _line({"phase": phase, "from_step": first, "to_step": last})
    before = findings.newest_alert + 1
    while True:
        with store.read() as reading:
            require_unchanged(reading, run)
            rows = reading.alerts.page(limit=ALERTS_PER_PAGE, run_id=run.id, before=before)
        for row in rows:
            item = alert_item(findings.open_alerts.get(row["number"], row))
            yield _line({"alert": json.loads(item.model_dump_json())})
        if len(rows) < ALERTS_PER_PAGE:
            return
        before = rows[-1]["number"]


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(spell_non_finite(fields), allow_nan=False).encode() + b"\n"
