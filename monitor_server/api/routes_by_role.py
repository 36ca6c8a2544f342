"""Adds the routes of a collector's role, and answers at each path that no route serves."""

import functools
from collections.abc import Iterator

from fastapi import APIRouter, FastAPI, Request
from starlette.routing import BaseRoute, Route

from monitor_server.access.route_scopes import check_routes, refuse_without_row
from monitor_server.api.error_handlers import GUARD_REFUSALS, REFUSALS
from monitor_server.api.routes import (
    action_links,
    action_requests,
    alert_history,
    alerts,
    audit,
    deletion,
    example_runs,
    expected_ranges,
    export,
    false_alarm_budget,
    forecast,
    health,
    ingest,
    judgements,
    keys,
    live_events,
    marks,
    notification_settings,
    notifications,
    oidc,
    retention,
    rules,
    run_labels,
    run_list,
    runs,
    saved_views,
    session,
    shown_views,
    silences,
    status,
)
from monitor_server.errors import UnknownPath

__all__ = ["API", "check_routes_of", "serve_routes"]

API = "/api/v1"
READERS = (
    run_list,
    runs,
    forecast,
    false_alarm_budget,
    expected_ranges,
    marks,
    run_labels,
    saved_views,
    deletion,
    export,
    alert_history,
    action_requests,
    alerts,
    judgements,
    silences,
    rules,
    shown_views,
    live_events,
    keys,
    audit,
    status,
    session,
    oidc,
    notifications,
    notification_settings,
    retention,
    action_links,
)
# Health and metrics are served in every role.
ROUTES = {
    "all": (ingest, *READERS, example_runs),
    "ingest": (ingest, status),
    "projector": (status,),
    "web": READERS,
}
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def check_routes_of(role: str) -> None:
    """Refuse routes of a role without an entry in the table of access.

    Raises:
        UndeclaredRoute: If there is one.
    """
    for module in ROUTES[role]:
        check_routes(_methods_and_paths(API, module.router))
    for router in (health.router, action_links.pages):
        check_routes(_methods_and_paths("", router))


def serve_routes(app: FastAPI, role: str) -> None:
    """Let an application serve the routes of a role, and refuse every other path below ``/api`` with a message.

    Raises:
        UndeclaredRoute: If an existing route of the application has no entry in the table of access.
    """
    check_routes(_methods_and_paths("", app.router))
    app.router.routes.extend(_routes(role))
    app.add_api_route("/api/{path:path}", _refuse_unknown_path, methods=METHODS, include_in_schema=False)


@functools.cache
def _routes(role: str) -> tuple[BaseRoute, ...]:
    """Include the routes of a role once for all applications of a process: FastAPI takes 0.1 s for the schemas."""
    router = APIRouter()
    for module in ROUTES[role]:
        router.include_router(module.router, prefix=API, responses=REFUSALS)
    router.include_router(health.router, responses=GUARD_REFUSALS)
    if action_links in ROUTES[role]:
        router.include_router(action_links.pages)
    return tuple(router.routes)


def _methods_and_paths(prefix: str, router: APIRouter) -> Iterator[tuple[str, str]]:
    for route in router.routes:
        if isinstance(route, Route):
            yield from ((method, prefix + route.path) for method in route.methods or ())


async def _refuse_unknown_path(request: Request) -> None:
    """Refuse a path below /api that this role does not serve, and HEAD; otherwise the dashboard would answer it."""
    if request.method == "HEAD":
        refuse_without_row(request.method, request.url.path)
    raise UnknownPath.at(request.url.path)
