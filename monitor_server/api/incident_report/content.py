"""Reads the content of an incident report from the store."""

from collections.abc import Iterable
from dataclasses import replace

from monitor_server.api.attribution import Attribution, attribution
from monitor_server.api.schemas import (
    ActionItem,
    AlertItem,
    ForecastItem,
    HistoryItem,
    PhaseItem,
    RunDetail,
    Schema,
    SeriesItem,
    Time,
    action_item,
    alert_item,
    forecast_item,
    history_item,
    phase_items,
    run_detail,
)
from monitor_server.attribution.vitals import VITALS
from monitor_server.errors import UnknownAlert
from monitor_server.settings import Deadlines
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import alert_of
from monitor_server.store.repositories.series.downsampling import downsample

__all__ = ["MAX_LISTED", "Incident", "read_incident"]

MAX_SIGNALS = 24
MAX_POINTS = 600  # of a signal: about one for each pixel of its drawing
MAX_LISTED = 200  # other alerts, actions of the trainer, and entries of the history
REWARDS = ("reward/mean", "reward/correct_frac")


class Incident(Schema):
    """An alert, the run around it, and its explanation; `schema_version` is the version of this shape."""

    schema_version: int = 2
    written_at: Time
    alert: AlertItem
    run: RunDetail
    phases: list[PhaseItem]
    alerts: list[AlertItem]
    history: list[HistoryItem]
    actions: list[ActionItem]
    attribution: Attribution
    forecast: ForecastItem | None
    signals: list[SeriesItem]


def read_incident(
    reading: Repositories, alert_id: str, *, now: float, deadlines: Deadlines, texts: bool, max_signals: int
) -> Incident:
    """Read all parts of a report in one transaction.

    Args:
        reading: An open read transaction.
        alert_id: The alert.
        now: The time at which the report is written, Unix seconds.
        deadlines: The times after which a silent run counts as stalled, and as lost.
        texts: Whether the sampled responses keep their texts and the texts of their tokens.
        max_signals: The largest number of signals of a run beside those that are always stored.

    Raises:
        UnknownAlert: If there is no such alert, or its run is deleted.
    """
    row = reading.alerts.view(alert_id)
    run_id = "" if row is None else row["run_id"]
    run_row = reading.run_views.find_detail(run_id, now=now, deadlines=deadlines)
    if row is None or run_row is None:
        raise UnknownAlert.by_id(alert_id)
    alert = alert_item(row)
    seen = reading.steps.signals(run_id)
    explained = attribution(reading, alert_of(row))
    names = _choose_signals(alert, explained, seen)
    ordinals = reading.attempts.ordinals(run_id)
    saved = reading.detector_states.load(run_id)
    return Incident(
        written_at=now,
        alert=alert,
        run=run_detail(run_row, seen, max_signals=max_signals),
        phases=phase_items(reading.phases.all(run_id)),
        alerts=[alert_item(each) for each in reading.alerts.page(run_id=run_id, limit=MAX_LISTED)],
        history=[history_item(each) for each in reading.alert_history.page(run_id, alert.kind, limit=MAX_LISTED)],
        actions=[action_item(each, ordinals) for each in reading.actions.page(run_id, limit=MAX_LISTED)],
        attribution=explained if texts else _without_texts(explained),
        forecast=None if saved is None else forecast_item(saved.step, saved.state),
        signals=[
            SeriesItem(signal=thin.signal, steps=thin.steps.tolist(), values=thin.values.tolist())
            for column in reading.series.read(run_id, names, max_points=MAX_POINTS)
            if len((thin := downsample(column, max_points=MAX_POINTS)).steps)
        ],
    )


def _choose_signals(alert: AlertItem, explained: Attribution, seen: Iterable[str]) -> list[str]:
    """Return at most `MAX_SIGNALS` signals of the run: the alert's own, those that moved, rewards, vital signs."""
    named = [value for value in alert.evidence.values() if isinstance(value, str)]
    wanted = [*named, *(moved.signal for moved in explained.moved), *REWARDS, *VITALS]
    known = set(seen)
    return [name for name in dict.fromkeys(wanted) if name in known][:MAX_SIGNALS]


def _without_texts(explained: Attribution) -> Attribution:
    return explained.model_copy(
        update={
            "responses": [each.model_copy(update={"text": None, "pieces": None}) for each in explained.responses],
            "tokens": [replace(token, text=None) for token in explained.tokens],
        }
    )
