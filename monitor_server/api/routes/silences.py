"""Silences: list, create and end them. A key of one project may access only the silences of that project."""

import asyncio
import uuid
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import Caller
from monitor_server.alerts.kinds import is_kind, refusal_of_kind
from monitor_server.api.body_fields import By, Note, Text
from monitor_server.api.dependencies import Asking, Collector, Reading, Serving
from monitor_server.api.error_handlers import BODY_REFUSALS, NOT_FOUND
from monitor_server.api.pagination import Cursor, ItemList, PageLimit, item_list
from monitor_server.api.schemas import Body, Schema, Time
from monitor_server.api.use_cases.change_silences import change_silences
from monitor_server.detection.protocol import Severity
from monitor_server.durations import LONGEST_SILENCE_SECONDS
from monitor_server.errors import InvalidField, ScopeTooSmall, UnknownAlert, UnknownRun, UnknownSilence
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.silences import Silence

__all__ = ["router"]

router = APIRouter(prefix="/silences")

MAX_SILENCES = 1_000  # of a project; each batch whose run has alerts reads them

SilenceState = Literal["scheduled", "active", "ended"]
Seconds = Annotated[float, Field(ge=0, le=2**40, allow_inf_nan=False, strict=True)]


class SilenceItem(Schema):
    """A silence. A null in ``project`` to ``alert_id`` sets no restriction; times are seconds since the epoch."""

    id: str
    state: SilenceState
    project: str | None
    run_id: str | None
    kind: str | None
    alert_id: str | None
    severity: Severity
    starts_at: Time
    ends_at: Time | None
    reason: str
    created_at: Time
    created_by: str
    ended_at: Time | None
    ended_by: str | None


class SilenceBody(Body):
    """The alerts to silence, the end, the author and the reason."""

    alert_id: Annotated[Text | None, Field(description="Only this alert")] = None
    run_id: Annotated[Text | None, Field(description="Only alerts of this run")] = None
    project: Annotated[Text | None, Field(description="Only alerts of this project")] = None
    kind: Annotated[Text | None, Field(description="Only alerts of this kind; rule:NAME for alerts of a rule")] = None
    severity: Annotated[
        Severity | None,
        Field(description="Highest severity to silence; by default, the severity of `alert_id`, or every severity"),
    ] = None
    starts_at: Annotated[Seconds | None, Field(description="Beginning of the silence; by default, now")] = None
    ends_at: Seconds | None = None
    minutes: Annotated[
        float | None,
        Field(gt=0, le=LONGEST_SILENCE_SECONDS / 60, strict=True, description="Length, instead of `ends_at`"),
    ] = None
    until_resolved: Annotated[
        bool, Field(strict=True, description="End with the alert of `alert_id`, instead of `ends_at`")
    ] = False
    by: By = "somebody"
    reason: Note = ""


class EndBody(Body):
    """The person who ends the silence."""

    by: By = "somebody"


@router.get("")
def silences(
    *,
    collector: Serving,
    reading: Reading,
    asking: Asking,
    cursor: Cursor,
    state: Annotated[SilenceState | None, Query()] = None,
    limit: PageLimit = 100,
) -> ItemList[SilenceItem]:
    """List silences, the newest first."""
    now = collector.clock()
    return item_list(
        lambda most: reading.silences.page(limit=most, now=now, state=state, project=asking.project, before=cursor),
        limit=limit,
        item=lambda row: _item(Silence(**{name: row[name] for name in Silence.__slots__}), now),
        cursor=lambda row: row["number"],
    )


@router.post("", responses=BODY_REFUSALS | NOT_FOUND)
async def create(body: SilenceBody, collector: Serving, asking: Asking) -> SilenceItem:
    """Silence alerts: they cause no notification until the silence ends. They are recorded and shown as before."""
    now, silence_id = collector.clock(), uuid.uuid4().hex[:16]
    starts_at, ends_at = _times(body, now)

    def write(repositories: Repositories) -> None:
        project, severity = _find_reach(repositories, body, asking)
        if repositories.silences.count_in_force(project) >= MAX_SILENCES:
            raise InvalidField(f"a project can have at most {MAX_SILENCES} silences in force; end one first")
        silence = Silence(
            id=silence_id,
            project=project,
            run_id=body.run_id,
            kind=body.kind,
            alert_id=body.alert_id,
            severity=severity,
            starts_at=starts_at,
            ends_at=ends_at,
            reason=body.reason,
            created_at=now,
            created_by=asking.signature(body.by),
        )
        repositories.silences.add(silence)
        record_change(
            repositories, asking, "silence.create", silence.id,
            now=now, project=project, by=body.by, detail=_describe(silence),
        )  # fmt: skip

    await change_silences(collector, silence_id, write)
    return await asyncio.to_thread(_read, collector, silence_id)


@router.post("/{silence_id}/end", responses=BODY_REFUSALS | NOT_FOUND)
async def end(silence_id: str, collector: Serving, asking: Asking, body: EndBody | None = None) -> SilenceItem:
    """End a silence now. Alerts that still fire are notified, unless they were notified before the silence."""
    now, by = collector.clock(), (body or EndBody()).by

    def write(repositories: Repositories) -> None:
        found = repositories.silences.find(silence_id)
        if found is None or not asking.reaches(found.project):
            raise UnknownSilence.by_id(silence_id)
        if found.ended_at is None:
            repositories.silences.end(silence_id, by=asking.signature(by), now=now)
            record_change(
                repositories, asking, "silence.end", silence_id, now=now, project=found.project, by=by,
                detail=_describe(found),
            )  # fmt: skip

    await change_silences(collector, silence_id, write)
    return await asyncio.to_thread(_read, collector, silence_id)


def _times(body: SilenceBody, now: float) -> tuple[float, float | None]:
    """Return the beginning and the end of a silence; the end is None if it ends with its alert."""
    starts_at = now if body.starts_at is None else max(now, body.starts_at)
    ends = [each for each in (body.ends_at, body.minutes, body.until_resolved or None) if each is not None]
    if len(ends) != 1:
        raise InvalidField(f"a silence needs exactly one of ends_at, minutes and until_resolved, got {len(ends)}")
    if body.until_resolved:
        if body.alert_id is None:
            raise InvalidField("until_resolved needs alert_id: the silence ends when that alert is resolved")
        return starts_at, None
    ends_at = starts_at + body.minutes * 60.0 if body.minutes is not None else float(body.ends_at or 0.0)
    if not starts_at < ends_at <= starts_at + LONGEST_SILENCE_SECONDS:
        raise InvalidField(
            f"a silence must end after it starts and within 366 days, got {starts_at:.0f} to {ends_at:.0f} "
            "(seconds since the epoch)"
        )
    return starts_at, ends_at


def _find_reach(repositories: Repositories, body: SilenceBody, author: Caller) -> tuple[str | None, str]:
    """Return the project of a silence, and the highest severity that it covers.

    Raises:
        UnknownAlert, UnknownRun: If the author may not access the alert or the run, or it does not exist.
        InvalidField: If nothing is named, no alert has such a kind, an alert is resolved, or alert, run and project do
            not belong together.
        ScopeTooSmall: If the project is not the author's.
    """
    if body.alert_id is body.run_id is body.project is body.kind is None:
        raise InvalidField("a silence must name at least one of alert_id, run_id, project and kind")
    project, severity = body.project or author.project, body.severity
    if not author.reaches(project):
        raise ScopeTooSmall(f"this key silences alerts of the project {author.project!r} only")
    if body.run_id is not None:
        found = repositories.runs.project(body.run_id)
        if found is None or not author.reaches(found):
            raise UnknownRun.by_id(body.run_id)
        project = _same(body.project, found)
    if body.alert_id is not None:
        alert = repositories.alerts.find(body.alert_id)
        found = None if alert is None else repositories.runs.project(alert.run_id)
        if alert is None or found is None or not author.reaches(found):
            raise UnknownAlert.by_id(body.alert_id)
        if alert.state == "resolved":
            raise InvalidField(f"alert {alert.id} is resolved; silence its kind or its run instead")
        if body.run_id not in (None, alert.run_id) or body.kind not in (None, alert.kind):
            raise InvalidField(f"alert {alert.id} is of another run or kind than the silence names")
        project, severity = _same(body.project, found), severity or Severity(alert.severity)
    elif body.kind is not None:
        _require_kind(repositories, body.kind, project)
    return project, str(severity or Severity.CRITICAL)


def _require_kind(repositories: Repositories, kind: str, project: str | None) -> None:
    # A firing alert may come from a detector of another version, which processes the runs of this database.
    if not is_kind(kind) and not repositories.alerts.fires(kind, project=project):
        raise InvalidField(f"kind {refusal_of_kind(kind)}")


def _same(named: str | None, found: str) -> str:
    if named not in (None, found):
        raise InvalidField(f"the run or the alert belongs to another project than {named!r}")
    return found


def _describe(silence: Silence) -> str:
    named = {name: getattr(silence, name) for name in ("alert_id", "run_id", "kind")}
    words = [f"{name} {value}" for name, value in named.items() if value is not None]
    return ", ".join([*words, f"up to {silence.severity}"])


def _read(collector: Collector, silence_id: str) -> SilenceItem:
    with collector.store.read() as reading:
        found = reading.silences.find(silence_id)
    if found is None:  # its run was deleted at this moment
        raise UnknownSilence.by_id(silence_id)
    return _item(found, collector.clock())


def _item(silence: Silence, now: float) -> SilenceItem:
    state = "ended" if silence.ended_at is not None else "scheduled" if silence.starts_at > now else "active"
    fields = {name: getattr(silence, name) for name in SilenceItem.model_fields if name != "state"}
    return SilenceItem.model_validate(fields | {"state": state})
