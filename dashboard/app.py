"""Mounts the dashboard on a FastAPI app: the collector's, or that of a dashboard in a process of its own.

Dash runs on a FastAPI app of its own, which gets only requests for the dashboard's paths. So its middleware never
sees an ingest request, and the host answers every other path itself: an unknown ``/api`` path is a 404.
"""

import logging
import re
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from dash import ClientsideFunction, Dash, Input, Output, State, ctx, no_update
from dash.development.base_component import Component
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.components.page_frame import message, shell
from dashboard.first_view.document import FirstView
from dashboard.ids import frame as frame_ids
from dashboard.page_delivery.callback_requests import DashRequests, refuse_unknown_path
from dashboard.page_delivery.compression import Compressed
from dashboard.page_delivery.first_answer import ASKED_PATH, FIRST_VIEW, HEAD, FirstAnswer
from dashboard.page_delivery.own_files import OwnFiles, plotly_route
from dashboard.pages import alert, judgement, palette, responses, shown_view
from dashboard.pages.compare import page as compare
from dashboard.pages.fleet import curves as fleet_curves
from dashboard.pages.fleet import page as fleet
from dashboard.pages.fleet import table_rows as fleet_rows
from dashboard.pages.fleet import views as fleet_views
from dashboard.pages.rules import form, rule_buttons
from dashboard.pages.rules.page import rules_page
from dashboard.pages.run import labels as run_labels
from dashboard.pages.run import page as run
from dashboard.pages.run import workspace
from dashboard.pages.settings import (
    channel_buttons,
    channel_form,
    channels,
    filled_forms,
    keys,
    projects,
    retention,
    route_form,
)
from dashboard.pages.settings.page import settings_page
from dashboard.sign_in.page import sign_in_route

__all__ = ["attach"]

PAGES: Final = re.compile(
    r"/((?P<compare>compare)/?|(?P<settings>settings)/?|(?P<rules>rules)/?|runs/(?P<run_id>[^/]+)(/(?P<responses>responses)|/alerts/(?P<alert_id>[^/]+))?/?)?"
)
OWN: Final = re.compile(rf"/(_dash-.*|assets/.*|_favicon\.ico|_reload-hash)|{PAGES.pattern}")

INDEX: Final = """<!DOCTYPE html>
<html lang="en">
  <head>
    {%metas%}
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{%title%}</title>
    <link rel="icon" href="/assets/favicon.svg" type="image/svg+xml">
    <script src="/assets/theme.js"></script>
    <link rel="stylesheet" href="STYLE">
    HEAD
    {%css%}
  </head>
  <body>
    FIRST_VIEW
    {%app_entry%}
    <footer>{%config%}<script src="SCRIPT"></script>{%scripts%}{%renderer%}</footer>
  </body>
</html>"""


class _DashboardMount(Mount):
    """Sends requests for the dashboard's paths to Dash, and leaves every other path to the host."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or not OWN.fullmatch(scope["path"]):
            return Match.NONE, {}
        if scope["method"] not in {"GET", "HEAD"} and not scope["path"].startswith("/_dash-"):
            return Match.NONE, {}
        return super().matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":  # Dash knows GET alone; the HTTP server leaves out the body
            scope = {**scope, "method": "GET"}
        if PAGES.fullmatch(scope["path"]):
            # One document serves all pages, because the browser has the address.
            scope = {**scope, "path": "/", "raw_path": b"/", ASKED_PATH: scope["path"]}
        await super().handle(scope, receive, send)


# Each page sends several requests; one log line for each would hide the log lines of the host.
logging.getLogger("httpx2").setLevel(logging.WARNING)
log = logging.getLogger(__name__)


def attach(app: FastAPI, *, api_url: str, connect_url: str = "") -> None:
    """Mount the dashboard on an app that already has its own routes.

    Args:
        app: The host, usually the collector. Its routes win over the dashboard's.
        api_url: Where the dashboard reaches the collector's HTTP API.
        connect_url: The address that trainers should use; empty if it is the one in the browser's address bar.
    """
    app.router.routes.append(sign_in_route())
    app.router.routes.append(_DashboardMount("/", app=_dash_server(api_url, connect_url), name="dashboard"))


def _dash_server(api_url: str, connect_url: str) -> ASGIApp:
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    server.add_exception_handler(HTTPException, refuse_unknown_path)
    server.router.routes.append(plotly_route())  # before Dash's own routes
    delivered = OwnFiles(Compressed(server))
    document = {"STYLE": delivered.style, "SCRIPT": delivered.script, "HEAD": HEAD, "FIRST_VIEW": FIRST_VIEW}
    app = Dash(
        "dashboard",
        server=server,
        assets_folder=str(Path(__file__).parent / "assets"),
        assets_ignore=r"\.(js|css)$",  # `OwnFiles` serves them
        title="rlvitals",
        update_title="",
        index_string=re.sub("|".join(document), lambda found: document[found[0]], INDEX),
        suppress_callback_exceptions=True,
        add_log_handler=False,
        on_error=_log_error,
    )
    app.backend.websocket_capability = False  # otherwise every page opens a websocket, which nothing here uses
    app.layout = shell()
    _register_pages(app, api_url, connect_url)
    fleet.register(app, api_url)
    fleet_rows.register(app, api_url)
    fleet_curves.register(app, api_url)
    fleet_views.register(app, api_url)
    run.register(app, api_url)
    run_labels.register(app, api_url)
    workspace.register(app, api_url)
    compare.register(app, api_url)
    responses.register(app, api_url)
    alert.register(app, api_url)
    judgement.register(app, api_url)
    palette.register(app, api_url)
    shown_view.register(app, api_url)
    settings = (keys, channels, channel_form, route_form, filled_forms, channel_buttons, projects, retention)
    for section in (*settings, form, rule_buttons):
        section.register(app, api_url)
    return DashRequests(FirstAnswer(delivered, FirstView(api_url, delivered.style)), app)


def _log_error(error: Exception) -> NoReturn:
    """Log the error of a callback, because Dash answers 500 without logging the cause."""
    log.error("a callback of the dashboard failed", exc_info=error)
    raise error


def _newest(asked: str | None, href: str) -> str:
    """Return the address of the page: `asked` if only its query has changed (assets/address.js), else `href`."""
    return asked if asked and ctx.triggered_id == frame_ids.ASKED_ADDRESS else href


def _register_pages(app: Dash, api_url: str, connect_url: str) -> None:
    async def page(pathname: str, asked: str | None, href: str) -> Component:  # noqa: PLR0911 - one a page
        found = PAGES.fullmatch(pathname)
        if found is None:
            return message("No such page", f"Nothing is at {pathname}.")
        address = urlsplit(_newest(asked, href))
        if found["compare"]:
            return await compare.compare_page(api_url, address.query)
        if found["settings"]:
            return await settings_page(api_url)
        if found["rules"]:
            return await rules_page(api_url)
        if found["alert_id"]:
            return await alert.alert_page(api_url, found["alert_id"], run_id=found["run_id"])
        if found["responses"]:
            return await responses.responses_page(api_url, found["run_id"], address.query)
        if found["run_id"]:
            return await run.run_page(api_url, found["run_id"], address.query)
        return await fleet.fleet_page(api_url, connect_url or f"{address.scheme}://{address.netloc}", address.query)

    async def again(retry: dict[str, Any] | None, pathname: str) -> object:
        """Draw the page that could not be drawn before; its message stays while the collector does not answer."""
        drawn = await page(pathname, None, retry["href"]) if retry else None
        return no_update if drawn is None or getattr(drawn, "id", "") == frame_ids.WAITING else drawn

    app.callback(
        Output(frame_ids.PAGE, "children"),
        Input(frame_ids.ADDRESS, "pathname"),
        Input(frame_ids.ASKED_ADDRESS, "data"),
        State(frame_ids.ADDRESS, "href"),
    )(page)
    app.callback(
        Output(frame_ids.PAGE, "children", allow_duplicate=True),
        Input(frame_ids.RETRY_NOW, "data"),
        State(frame_ids.ADDRESS, "pathname"),
        prevent_initial_call=True,
    )(again)
    app.clientside_callback(
        ClientsideFunction("rlvitals", "connect"), Output(frame_ids.LIVE_STATE, "title"), Input(frame_ids.LIVE, "data")
    )
    app.clientside_callback(
        ClientsideFunction("rlvitals", "retry"),
        Output(frame_ids.RETRY_NOW, "data"),
        Input(frame_ids.RETRY, "n_intervals"),
    )
