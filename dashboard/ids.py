"""The ids of components that callbacks and browser code share; assets/*.js uses the same strings."""

from typing import Any, Final

__all__ = [
    "ADDRESS",
    "ALERT",
    "ALERT_ACKNOWLEDGE",
    "ALERT_COMMENT",
    "ALERT_COMMENT_SEND",
    "ALERT_HISTORY",
    "ALERT_LIFE_STATE",
    "ALERT_REFRESH",
    "ALERT_SILENCE",
    "ALERT_SILENCE_SEND",
    "CHANNELS",
    "CHANNELS_DRAWN",
    "CHANNEL_EDITED",
    "CHANNEL_FILE",
    "CHANNEL_FILE_ANSWER",
    "CHANNEL_FILE_CHECK",
    "CHANNEL_FORM",
    "CHANNEL_FORM_TITLE",
    "CHANNEL_NEW",
    "CHANNEL_SAVE",
    "CHANNEL_SAVED",
    "CHANNEL_STATE",
    "COMPARE_ALIGN",
    "COMPARE_BODY",
    "COMPARE_EXAMPLE",
    "COMPARE_EXAMPLE_STATE",
    "COMPARE_GROUP",
    "COMPARE_RUNS",
    "COMPARE_SCALE",
    "COMPARE_SIGNALS",
    "COMPARE_SMOOTHING",
    "CONNECT_SAMPLE",
    "CONNECT_SAMPLE_STATE",
    "CONNECT_WAY",
    "DELIVERY_SAVE",
    "DELIVERY_SAVED",
    "FIGURE",
    "FLEET",
    "FLEET_ARCHIVED",
    "FLEET_COLLAPSED",
    "FLEET_COLUMNS",
    "FLEET_CSV",
    "FLEET_CURVE",
    "FLEET_CURVES",
    "FLEET_CURVES_WANTED",
    "FLEET_FILTERS",
    "FLEET_FORGET",
    "FLEET_GRID",
    "FLEET_GROUP",
    "FLEET_LIBRARY",
    "FLEET_NONE_MATCH",
    "FLEET_PROJECT",
    "FLEET_REFRESH",
    "FLEET_ROWS",
    "FLEET_SAVE",
    "FLEET_STATUS",
    "FLEET_TABLE",
    "FLEET_TABLE_DESCRIPTION",
    "FLEET_TEXT",
    "FLEET_VIEW",
    "FLEET_VIEWS",
    "FLEET_VIEW_STATE",
    "FLEET_VIEW_TO_SAVE",
    "FLEET_WALL",
    "JUDGED",
    "KEYS",
    "KEYS_LIST",
    "KEYS_OPEN",
    "KEY_DAYS",
    "KEY_MADE",
    "KEY_MAKE",
    "KEY_NAME",
    "KEY_PROJECT",
    "KEY_SCOPE",
    "LABEL_ARCHIVED",
    "LABEL_NOTES",
    "LABEL_NOTES_SHOWN",
    "LABEL_SAVE",
    "LABEL_STATE",
    "LABEL_TAGS",
    "LABEL_TITLE",
    "LIVE",
    "LIVE_STATE",
    "NOTIFY",
    "PAGE",
    "PROJECTS_LIST",
    "PROJECT_CHOSEN",
    "PROJECT_CONFIRMED",
    "PROJECT_STATE",
    "RESPONSES_CORRECT",
    "RESPONSES_FROM",
    "RESPONSES_KIND",
    "RESPONSES_LIST",
    "RESPONSES_MEASURE",
    "RESPONSES_ORDER",
    "RESPONSES_QUESTIONS",
    "RESPONSES_QUESTIONS_DRAW",
    "RESPONSES_REWARDS",
    "RESPONSES_REWARDS_CARD",
    "RESPONSES_STEP",
    "RESPONSES_TO",
    "RETENTION",
    "RETENTION_ASKED",
    "RETENTION_CONFIRMED",
    "RETENTION_DRAWN",
    "RETENTION_SAVE",
    "RETENTION_STATE",
    "RETRY",
    "RETRY_NOW",
    "ROUTE_EDITED",
    "ROUTE_FORM",
    "ROUTE_FORM_TITLE",
    "ROUTE_NEW",
    "ROUTE_SAVE",
    "ROUTE_SAVED",
    "RUN_ALERTS",
    "RUN_DELETE",
    "RUN_DELETE_CONFIRMED",
    "RUN_FORECAST",
    "RUN_FORECAST_REFRESH",
    "RUN_HEADER",
    "RUN_REFRESH",
    "SIGN_OUT",
    "THEME",
    "WAITING",
    "WORKSPACE",
    "WORKSPACE_AXIS",
    "WORKSPACE_COUNT",
    "WORKSPACE_DOWNLOAD",
    "WORKSPACE_DRAWN",
    "WORKSPACE_EXPORTED",
    "WORKSPACE_OUTLIERS",
    "WORKSPACE_PLACES",
    "WORKSPACE_SCALE",
    "WORKSPACE_SEARCH",
    "WORKSPACE_SMOOTHING",
    "WORKSPACE_WANTED",
    "WORKSPACE_ZOOM",
    "channel_button",
    "channel_test",
    "connect_panel",
    "judgement",
    "key_revoke",
    "project_delete",
    "route_button",
    "setting_field",
    "setting_part",
    "setting_problem",
    "version_restore",
]

ADDRESS: Final = "address"
PAGE: Final = "page"
RETRY: Final = "retry"
RETRY_NOW: Final = "retry-now"
WAITING: Final = "waiting"
NOTIFY: Final = "notify"
SIGN_OUT: Final = "sign-out"
THEME: Final = "theme"
CONNECT_SAMPLE: Final = "connect-sample"
CONNECT_SAMPLE_STATE: Final = "connect-sample-state"
CONNECT_WAY: Final = "connect-way"
KEYS: Final = "keys"
KEYS_OPEN: Final = "keys-open"
LIVE: Final = "live"
LIVE_STATE: Final = "live-state"

FLEET: Final = "fleet"
FLEET_ARCHIVED: Final = "fleet-archived"
FLEET_COLLAPSED: Final = "fleet-collapsed"
FLEET_COLUMNS: Final = "fleet-columns"
FLEET_CSV: Final = "fleet-csv"
FLEET_CURVE: Final = "fleet-curve"
FLEET_CURVES: Final = "fleet-curves"
FLEET_CURVES_WANTED: Final = "fleet-curves-wanted"
FLEET_FILTERS: Final = "fleet-filters"
FLEET_FORGET: Final = "fleet-forget"
FLEET_GRID: Final = "fleet-grid"
FLEET_GROUP: Final = "fleet-group"
FLEET_ROWS: Final = "fleet-rows"
FLEET_SAVE: Final = "fleet-save"
FLEET_TABLE: Final = "fleet-table"
FLEET_TABLE_DESCRIPTION: Final = "fleet-table-description"
FLEET_LIBRARY: Final = "fleet-library"
FLEET_VIEW: Final = "fleet-view"
FLEET_VIEWS: Final = "fleet-views"
FLEET_VIEW_STATE: Final = "fleet-view-state"
FLEET_VIEW_TO_SAVE: Final = "fleet-view-to-save"
FLEET_WALL: Final = "fleet-wall"
FLEET_REFRESH: Final = "fleet-refresh"
FLEET_TEXT: Final = "fleet-text"
FLEET_PROJECT: Final = "fleet-project"
FLEET_STATUS: Final = "fleet-status"
FLEET_NONE_MATCH: Final = "fleet-none-match"

ALERT: Final = "alert"
ALERT_COMMENT: Final = "alert-comment"
ALERT_COMMENT_SEND: Final = "alert-comment-send"
ALERT_HISTORY: Final = "alert-history"
ALERT_LIFE_STATE: Final = "alert-life-state"
ALERT_SILENCE: Final = "alert-silence"
ALERT_SILENCE_SEND: Final = "alert-silence-send"
ALERT_REFRESH: Final = "alert-refresh"
ALERT_ACKNOWLEDGE: Final = "alert-acknowledge"

RESPONSES_FROM: Final = "responses-from"
RESPONSES_REWARDS: Final = "responses-rewards"
RESPONSES_REWARDS_CARD: Final = "responses-rewards-card"
RESPONSES_STEP: Final = "responses-step"
RESPONSES_TO: Final = "responses-to"
RESPONSES_CORRECT: Final = "responses-correct"
RESPONSES_QUESTIONS: Final = "responses-questions"
RESPONSES_QUESTIONS_DRAW: Final = "responses-questions-draw"
RESPONSES_ORDER: Final = "responses-order"
RESPONSES_MEASURE: Final = "responses-measure"
RESPONSES_KIND: Final = "responses-kind"
RESPONSES_LIST: Final = "responses-list"

COMPARE_RUNS: Final = "compare-runs"
COMPARE_SIGNALS: Final = "compare-signals"
COMPARE_ALIGN: Final = "compare-align"
COMPARE_SCALE: Final = "compare-scale"
COMPARE_EXAMPLE: Final = "compare-example"
COMPARE_EXAMPLE_STATE: Final = "compare-example-state"
COMPARE_GROUP: Final = "compare-group"
COMPARE_SMOOTHING: Final = "compare-smoothing"
COMPARE_BODY: Final = "compare-body"

FIGURE: Final = "run-figure"
RUN_FORECAST: Final = "run-forecast"
RUN_FORECAST_REFRESH: Final = "run-forecast-refresh"
RUN_HEADER: Final = "run-header"
RUN_ALERTS: Final = "run-alerts"
RUN_DELETE: Final = "run-delete"
RUN_DELETE_CONFIRMED: Final = "run-delete-confirmed"
LABEL_ARCHIVED: Final = "label-archived"
LABEL_NOTES: Final = "label-notes"
LABEL_NOTES_SHOWN: Final = "label-notes-shown"
LABEL_SAVE: Final = "label-save"
LABEL_STATE: Final = "label-state"
LABEL_TAGS: Final = "label-tags"
LABEL_TITLE: Final = "label-title"
RUN_REFRESH: Final = "run-refresh"

WORKSPACE: Final = "workspace"
WORKSPACE_SEARCH: Final = "workspace-search"
WORKSPACE_SMOOTHING: Final = "workspace-smoothing"
WORKSPACE_AXIS: Final = "workspace-axis"
WORKSPACE_OUTLIERS: Final = "workspace-outliers"
WORKSPACE_SCALE: Final = "workspace-scale"
WORKSPACE_ZOOM: Final = "workspace-zoom"  # what is zoomed to, in units of the axis, or nothing
WORKSPACE_WANTED: Final = "workspace-wanted"  # which panels the browser wants drawn, and how
WORKSPACE_COUNT: Final = "workspace-count"
WORKSPACE_PLACES: Final = "workspace-places"
WORKSPACE_DRAWN: Final = "workspace-drawn"  # the figures of the panels that were wanted
WORKSPACE_EXPORTED: Final = "workspace-exported"  # the signal whose values are to be saved
WORKSPACE_DOWNLOAD: Final = "workspace-download"

CHANNELS: Final = "channels"
CHANNELS_DRAWN: Final = "channels-drawn"  # the version that the page shows
CHANNEL_FORM: Final = "channel-form"
CHANNEL_FORM_TITLE: Final = "channel-form-title"
ROUTE_FORM: Final = "route-form"
ROUTE_FORM_TITLE: Final = "route-form-title"
CHANNEL_EDITED: Final = "channel-edited"
CHANNEL_NEW: Final = "channel-new"
CHANNEL_SAVE: Final = "channel-save"
CHANNEL_SAVED: Final = "channel-saved"
DELIVERY_SAVE: Final = "delivery-save"
DELIVERY_SAVED: Final = "delivery-saved"
ROUTE_EDITED: Final = "route-edited"  # the place of the route in the form, and the version in which it stood there
ROUTE_NEW: Final = "route-new"
ROUTE_SAVE: Final = "route-save"
ROUTE_SAVED: Final = "route-saved"
RETENTION: Final = "retention"
RETENTION_ASKED: Final = "retention-asked"  # the limits that a person is asked to confirm, and what they have seen
RETENTION_CONFIRMED: Final = "retention-confirmed"
RETENTION_DRAWN: Final = "retention-drawn"  # the limits that the form was drawn with
RETENTION_SAVE: Final = "retention-save"
RETENTION_STATE: Final = "retention-state"
CHANNEL_FILE: Final = "channel-file"
CHANNEL_FILE_ANSWER: Final = "channel-file-answer"
CHANNEL_FILE_CHECK: Final = "channel-file-check"
CHANNEL_STATE: Final = "channel-state"
KEYS_LIST: Final = "keys-list"
KEY_DAYS: Final = "key-days"
JUDGED: Final = "judged"
KEY_MADE: Final = "key-made"
KEY_MAKE: Final = "key-make"
KEY_NAME: Final = "key-name"
KEY_PROJECT: Final = "key-project"
KEY_SCOPE: Final = "key-scope"
PROJECTS_LIST: Final = "projects-list"
RULES_LIST: Final = "rules-list"
RULE_EDITED: Final = "rule-edited"
RULE_FORM_TITLE: Final = "rule-form-title"
RULE_NEW: Final = "rule-new"
RULE_SAVE: Final = "rule-save"
RULE_STATE: Final = "rule-state"
RULE_TRIED: Final = "rule-tried"
RULE_TRIED_RUN: Final = "rule-tried-run"
RULE_TRY: Final = "rule-try"
PROJECT_CHOSEN: Final = "project-chosen"
PROJECT_CONFIRMED: Final = "project-confirmed"
PROJECT_STATE: Final = "project-state"


def connect_panel(name: str) -> dict[str, str]:
    """Return the id of the lines that connect a kind of trainer."""
    return {"type": "connect-panel", "name": name}


# Their arguments are names, or Dash's `ALL`.
def judgement(part: str, alert: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of a part of the form that judges an alert: state, right, wrong, step or note."""
    return {"type": f"judgement-{part}", "alert": alert}


def key_revoke(key: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of the button that revokes a key."""
    return {"type": "key-revoke", "key": key}


def channel_test(name: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of the button that tests a channel."""
    return {"type": "channel-test", "channel": name}


def channel_button(action: Any, name: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of a button that edits or removes a channel."""
    return {"type": "channel-button", "action": action, "channel": name}


def route_button(action: Any, number: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of a button that edits, moves or removes a route."""
    return {"type": "route-button", "action": action, "route": number}


def version_restore(version: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of the button that puts an earlier version of the channels into force."""
    return {"type": "version-restore", "version": version}


def setting_field(form: str, name: str) -> str:
    """Return the id of a field of a form of settings."""
    return f"{form}-field-{name.replace('_', '-')}"


def setting_part(form: str, name: str) -> str:
    """Return the id of what holds a field of a form of settings, with its label."""
    return f"{form}-part-{name.replace('_', '-')}"


def setting_problem(form: str, name: str) -> str:
    """Return the id of the place for what is wrong with a field of a form of settings."""
    return f"{form}-problem-{name.replace('_', '-')}"


def project_delete(name: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of the button that deletes a project."""
    return {"type": "project-delete", "project": name}


def rule_field(name: str) -> str:
    """Return the id of a field of the form of a rule."""
    return f"rule-field-{name.replace('_', '-')}"


def rule_part(name: str) -> str:
    """Return the id of a part of the form that some conditions have."""
    return f"rule-part-{name}"


def rule_button(action: Any, rule: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of a button that edits, switches or deletes a rule."""
    return {"type": "rule-button", "action": action, "rule": rule}
