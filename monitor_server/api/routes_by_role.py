"""Adds the routes of a collector's role, and answers at each path that no route serves."""

import functools
from collections.abc import Iterator

from fastapi import APIRouter, FastAPI, Request
from starlette.routing import BaseRoute, Match, Route

from monitor_server.access.route_scopes import ROUTES as KNOWN_ROUTES
from monitor_server.access.route_scopes import check_routes
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
from monitor_server.errors import MethodNotAllowed, UnknownPath

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
    """Refuse a path below /api that no route serves; otherwise the dashboard would answer it."""
    path = request.url.path
    served = [method for method in METHODS if _is_served(request, method)]
    # A route with exactly this path takes precedence over one whose path has a matching parameter.
    allowed = [method for method in served if (method, path) in KNOWN_ROUTES] or served
    if allowed:
        raise MethodNotAllowed(f"{request.method} is not served at {path}; see /docs", allowed)
    raise UnknownPath.at(path)


def _is_served(request: Request, method: str) -> bool:
    """Whether a route before the one for unknown paths serves the request's path with another method."""
    for route in request.app.routes:
        if getattr(route, "endpoint", None) is _refuse_unknown_path:
            return False
        if route.matches({**request.scope, "method": method})[0] is Match.FULL:
            return True
    return False
