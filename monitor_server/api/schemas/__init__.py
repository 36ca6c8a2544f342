"""The shapes of the API's answers: one model for each shape of docs/api.md, made from rows of the store.

Numbers that are not finite are written as "NaN", "Infinity" or "-Infinity".
"""

from monitor_server.api.schemas.alerts import (
    AcknowledgementItem,
    ActionEvent,
    ActionItem,
    AlertItem,
    AlertState,
    ForkItem,
    HistoryItem,
    JudgementItem,
    RequestItem,
    action_item,
    alert_item,
    history_item,
)
from monitor_server.api.schemas.base import Body, Schema, Time
from monitor_server.api.schemas.forecast import DriverItem, ForecastItem, HorizonItem, forecast_item
from monitor_server.api.schemas.health import Health, Readiness
from monitor_server.api.schemas.marks import MarkItem
from monitor_server.api.schemas.responses import ResponseItem, response_item, response_numbers
from monitor_server.api.schemas.runs import (
    AttemptItem,
    PhaseItem,
    RunDetail,
    RunGroupItem,
    RunItem,
    RunRow,
    SeriesItem,
    Sparkline,
    Status,
    StepEvent,
    StepItem,
    group_item,
    phase_items,
    row_item,
    run_detail,
    run_item,
)
from monitor_server.api.schemas.shown_views import ShownView, ViewEvent

__all__ = [
    "AcknowledgementItem",
    "ActionEvent",
    "ActionItem",
    "AlertItem",
    "AlertState",
    "AttemptItem",
    "Body",
    "DriverItem",
    "ForecastItem",
    "ForkItem",
    "Health",
    "HistoryItem",
    "HorizonItem",
    "JudgementItem",
    "MarkItem",
    "PhaseItem",
    "Readiness",
    "RequestItem",
    "ResponseItem",
    "RunDetail",
    "RunGroupItem",
    "RunItem",
    "RunRow",
    "Schema",
    "SeriesItem",
    "ShownView",
    "Sparkline",
    "Status",
    "StepEvent",
    "StepItem",
    "Time",
    "ViewEvent",
    "action_item",
    "alert_item",
    "forecast_item",
    "group_item",
    "history_item",
    "phase_items",
    "response_item",
    "response_numbers",
    "row_item",
    "run_detail",
    "run_item",
]
