"""Draws how long data is kept, and the form of the limits that the environment does not set."""

from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.administration import LimitItem
from dashboard.components.settings.fields import Fields
from dashboard.components.settings.retention_wording import RETENTION
from dashboard.components.settings.tables import retention_table
from dashboard.ids.settings import retention as retention_ids

__all__ = ["LIMIT_FIELDS", "retention_shown"]

LIMIT_FIELDS = ("record_steps", "record_days", "response_days", "step_days", "thinned_steps", "run_days")


def retention_shown(
    limits: Sequence[LimitItem],
    may_save: bool,  # noqa: FBT001 - of a page section
    *,
    is_open: bool = False,
) -> Component:
    """Return the limits, with a form where the caller may save some; a field that the environment sets is off."""
    table = retention_table(limits)
    return html.Div([table, _form(limits, is_open=is_open)]) if may_save else html.Div(table)


def _form(limits: Sequence[LimitItem], *, is_open: bool) -> Component:
    fields, held = Fields("retention"), {limit["name"]: limit for limit in limits}
    numbers = [
        fields.number(name, _label(name), value=held[name]["value"], disabled=bool(held[name]["fixed"]))
        for name in LIMIT_FIELDS
        if name in held
    ]
    buttons = html.Div(
        html.Button("Save what is kept", id=retention_ids.SAVE, className="button"), className="field-buttons"
    )
    hint = "An empty field keeps the data for good. Before a limit is saved, you see how many runs and rows it removes."
    drawn = {limit["name"]: limit["value"] for limit in limits}
    return html.Details(
        [
            dcc.Store(id=retention_ids.DRAWN, data=drawn),
            html.Summary("Change how long data is kept"),
            html.P(hint, className="aside"),
            html.Div([*numbers, buttons], className="fields form-row"),
        ],
        open=is_open,
        className="settings-form retention-form",
    )


def _label(name: str) -> str:
    what, unit = RETENTION[name]
    return f"{what[:1].upper()}{what[1:]} ({unit})"
