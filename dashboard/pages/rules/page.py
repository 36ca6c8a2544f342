"""The page of rules, at ``/rules``: the list of rules, and the form that tries and saves a rule."""

import asyncio

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError
from dashboard.components.page_frame import waiting
from dashboard.components.rules.form import rule_form
from dashboard.components.rules.tables import rule_table
from dashboard.ids import frame as frame_ids
from dashboard.ids import rules as rule_ids
from dashboard.pages.run_choice import OFFERED

__all__ = ["rules_page"]


async def rules_page(api_url: str) -> Component:
    """Draw the page."""
    try:
        async with ApiClient(api_url) as api:
            rules, offered = await asyncio.gather(api.rules.all(), api.runs.matching(limit=OFFERED))
    except ApiError as error:
        return waiting("The rules cannot be shown", str(error))
    return html.Div(
        className="settings-page",
        children=[
            dcc.Store(id=frame_ids.LIVE, data={"page": "rules", "title": "Rules"}),
            dcc.ConfirmDialog(id=rule_ids.CONFIRMED),
            dcc.Store(id=rule_ids.CHOSEN),
            dcc.Store(id=rule_ids.EDITED),
            dcc.Store(id=rule_ids.SEEN),
            html.H1("Rules"),
            html.Section(
                [
                    html.H2("Rules of your own"),
                    html.P("A rule that holds is an alert like those of the detectors.", className="aside"),
                    html.Div(rule_table(rules), id=rule_ids.LIST),
                ],
                className="card table-card",
            ),
            html.Section(
                [
                    html.H2("A new rule", id=rule_ids.FORM_TITLE),
                    html.P(
                        "A dry run finds out at which steps of a recorded run the rule would have fired; "
                        "it writes nothing. docs/rules.md has the meaning of each field.",
                        className="aside",
                    ),
                    rule_form(offered),
                ],
                className="card table-card",
            ),
        ],
    )
