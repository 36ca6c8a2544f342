"""A person's acknowledgement of an alert: it is stored with the alert at once, and logged for detection."""

from dataclasses import dataclass
from typing import Final

from monitor_server.alerts.changes.stages import Change, advance
from monitor_server.alerts.liveness import LOST
from monitor_server.errors import InvalidField, UnknownAlert
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.acknowledgements import StoredAcknowledgement
from monitor_server.store.repositories.alert_history import HistoryEntry

__all__ = ["AlertAcknowledgement", "acknowledge"]

MAX_ACKNOWLEDGEMENTS: Final = 1_000  # each has up to 2,000 characters, and detection reads each of them


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertAcknowledgement:
    """The person who has acknowledged an alert, with a note."""

    run_id: str
    alert_id: str
    by: str
    note: str


def acknowledge(repositories: Repositories, given: AlertAcknowledgement, *, now: float) -> tuple[int, str]:
    """Write an acknowledgement, and return its position in the run's log and the kind of the alert.

    If the trainer of the run is lost, this also closes the run. Detection processes it when the log is projected.

    Raises:
        UnknownAlert: If there is no such alert.
        InvalidField: If alerts of its run and kind were acknowledged `MAX_ACKNOWLEDGEMENTS` times.
    """
    run, alert = repositories.runs.lock(given.run_id), repositories.alerts.find(given.alert_id)
    if run is None or alert is None:
        raise UnknownAlert.by_id(given.alert_id)
    if repositories.acknowledgements.count(run.id, alert.kind) >= MAX_ACKNOWLEDGEMENTS:
        raise InvalidField(
            f"the alerts of one run and kind can be acknowledged at most {MAX_ACKNOWLEDGEMENTS} times; silence them"
        )
    noted = {"acknowledged_at": now, "acknowledged_by": given.by, "note": given.note}
    acknowledged = advance(alert, Change.ACKNOWLEDGED, **noted)
    repositories.alerts.save(acknowledged)
    entry = HistoryEntry(at=now, change=Change.ACKNOWLEDGED, by=given.by, why=given.note)
    repositories.alert_history.add(acknowledged, entry)
    run.log_end += 1
    stored = StoredAcknowledgement(
        alert_id=alert.id, kind=alert.kind, attempt=None, step=None, at=now, by=given.by, note=given.note
    )
    repositories.acknowledgements.add(run.id, stored, position=run.log_end)
    if alert.kind == LOST and alert.state == "firing":
        run.given_up_at = now
    repositories.runs.save_ingest(run)
    return run.log_end, alert.kind
