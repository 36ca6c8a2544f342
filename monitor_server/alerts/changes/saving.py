"""Writes a changed alert with its history, and keeps what others have written about it meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from monitor_server.alerts.changes.stages import Change, advance
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alert_history import HistoryEntry
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.silences import Silence

__all__ = ["UnsavedChange", "save_alert"]


@dataclass(frozen=True, slots=True)
class UnsavedChange:
    """A change that is not written yet."""

    change: Change
    entry: HistoryEntry


def save_alert(
    repositories: Repositories,
    alert: Alert,
    changes: Sequence[UnsavedChange],
    *,
    opened: Mapping[str, Alert],
    known: Alert | None,
    silences: Sequence[Silence],
    now: float,
) -> Alert:
    """Apply the changes of an alert to its row in the store, and write it with its history.

    Args:
        repositories: Those of the transaction.
        alert: The alert after its changes.
        changes: The changes that are not written yet, in order.
        opened: The alerts that are not in the store yet by their ids, as they were before their changes.
        known: The alert as it is in the store; None if it is new.
        silences: The silences of its run.
        now: Seconds since the epoch.

    Returns:
        The alert as it was written.
    """
    entries: list[tuple[Alert, HistoryEntry]] = []
    if known is None:
        first = opened[alert.id]
        before = repositories.alerts.newest_resolved(alert.run_id, alert.kind)
        current = replace(alert, stage=first.stage, state=first.state, reopened_from=before)
        change = "opened" if before is None else "reopened"
        entry = HistoryEntry(at=first.opened_at, change=change, step=first.opened_step, why=first.summary)
        entries.append((current, entry))
    else:
        current = replace(
            alert, stage=known.stage, state=known.state, reopened_from=known.reopened_from,
            silence_id=known.silence_id, silenced_until=known.silenced_until,
        )  # fmt: skip
        if known.severity_step == alert.severity_step:
            at, by, note = known.acknowledged_at, known.acknowledged_by, known.note
            current = replace(current, acknowledged_at=at, acknowledged_by=by, note=note)
    # The silences decide whether people are told of the changes, also of an alert that has ended meanwhile.
    is_over = alert.state == "resolved"
    if is_over:
        current = _apply_silences(repositories, current, silences, entries, now=now)
    for each in changes:
        following = advance(current, each.change)
        if following.stage != current.stage or each.change not in (Change.DATA_LOST, Change.DATA_RETURNED):
            entries.append((following, each.entry))
        current = following
    if not is_over:
        current = _apply_silences(repositories, current, silences, entries, now=now)
    if known is None:
        repositories.alerts.add(current)
    else:
        repositories.alerts.save(current)
    if current.state == "resolved":
        repositories.silences.end_of_alert(current.id, now=now)
    for changed, entry in entries:
        repositories.alert_history.add(changed, entry)
    return current


def _apply_silences(
    repositories: Repositories,
    alert: Alert,
    silences: Sequence[Silence],
    entries: list[tuple[Alert, HistoryEntry]],
    *,
    now: float,
) -> Alert:
    """Return an alert after the silences of its run, and add what they change to the entries for its history.

    `alerts.silencing` ends a silence whose time is over, and notifies people of the alerts that still fire.
    """
    covering = next((silence for silence in silences if silence.covers(alert)), None)
    if covering is not None and alert.silence_id is None:
        repositories.notification_events.remove_waiting(alert.run_id, alert.id)
        fields = {"silence_id": covering.id, "silenced_until": covering.ends_at}
        alert = advance(alert, Change.SILENCED, **fields)
        entry = HistoryEntry(at=now, change=Change.SILENCED, by=covering.created_by, why=covering.reason)
        entries.append((alert, entry))
    elif covering is None and any(silence.id == alert.silence_id for silence in silences):
        alert = advance(alert, Change.SILENCE_ENDED, silence_id=None, silenced_until=None)
        why = f"the silence does not cover alerts that are {alert.severity}"
        entries.append((alert, HistoryEntry(at=now, change=Change.SILENCE_ENDED, why=why)))
    return alert
