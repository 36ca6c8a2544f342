"""The table of routes: the scope that each one needs, and the part of the collector that it concerns.

The part confines a key of one project to its project. A route without an entry is closed: `check_routes` ends the start
of a collector that serves such a route. docs/keys.md shows this table.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NoReturn

from starlette.routing import compile_path

from monitor_server.access.callers import Scope
from monitor_server.errors import MethodNotAllowed, UndeclaredRoute, UnknownPath

__all__ = ["NO_ROW", "ROUTES", "Access", "Reach", "check_routes", "find_access", "refuse_without_row"]


class Reach(StrEnum):
    """The part of the collector that a route concerns. It confines a key of one project to its project."""

    NOTHING = "nothing"
    """The answer contains nothing of any project."""
    RUN = "run"
    """The run in the path: a run of another project is answered like a run that does not exist."""
    ALERT = "alert"
    """The alert in the path: an alert of another project is answered like an alert that does not exist."""
    PROJECT = "project"
    """The project in the path or the query: another project is answered like a project that does not exist."""
    FILTERED = "filtered"
    """The route itself filters by the caller's project."""
    COLLECTOR = "collector"
    """The collector as a whole: a key of one project is refused."""


@dataclass(frozen=True, slots=True)
class Access:
    """The requirements of a route.

    Attributes:
        scope: The scope that the caller needs; None if no key is required.
        reach: The part of the collector that the route concerns.
    """

    scope: Scope | None
    reach: Reach


_INGEST = Access(Scope.INGEST, Reach.FILTERED)
_LIST = Access(Scope.READ, Reach.FILTERED)
_RUN = Access(Scope.READ, Reach.RUN)
_ALERT = Access(Scope.READ, Reach.ALERT)
_PAGE = Access(Scope.READ, Reach.NOTHING)  # the frame of a page; its content comes from the API
_PUBLIC = Access(None, Reach.NOTHING)
_ADMIN = Access(Scope.ADMIN, Reach.FILTERED)

ROUTES: Final[Mapping[tuple[str, str], Access]] = {
    ("POST", "/api/v1/ingest"): _INGEST,
    ("GET", "/api/v1/runs"): _LIST,
    ("GET", "/api/v1/runs/groups"): _LIST,
    ("GET", "/api/v1/runs/rows"): _LIST,
    ("GET", "/api/v1/runs/{run_id}"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/attempts"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/series"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/steps"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/responses"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/response-pairs"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/phases"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/forecast"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/warranty"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/expected-ranges"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/marks"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/actions"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/alerts"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/acknowledgements"): _RUN,
    ("GET", "/api/v1/runs/{run_id}/export"): _RUN,
    ("POST", "/api/v1/runs/{run_id}/reset"): Access(Scope.OPERATE, Reach.RUN),
    ("PATCH", "/api/v1/runs/{run_id}"): Access(Scope.OPERATE, Reach.RUN),
    ("DELETE", "/api/v1/runs/{run_id}"): Access(Scope.ADMIN, Reach.RUN),
    ("DELETE", "/api/v1/projects/{name:path}"): Access(Scope.ADMIN, Reach.PROJECT),
    ("GET", "/api/v1/export"): Access(Scope.READ, Reach.PROJECT),
    ("GET", "/api/v1/alerts"): _LIST,
    ("GET", "/api/v1/alerts/{alert_id}"): _ALERT,
    ("GET", "/api/v1/alerts/{alert_id}/attribution"): _ALERT,
    ("GET", "/api/v1/alerts/{alert_id}/incident"): _ALERT,
    ("GET", "/api/v1/alerts/{alert_id}/history"): _ALERT,
    ("POST", "/api/v1/alerts/{alert_id}/ack"): Access(Scope.OPERATE, Reach.ALERT),
    ("POST", "/api/v1/alerts/{alert_id}/comments"): Access(Scope.OPERATE, Reach.ALERT),
    ("POST", "/api/v1/alerts/{alert_id}/judgement"): Access(Scope.OPERATE, Reach.ALERT),
    ("GET", "/api/v1/runs/{run_id}/judgements"): _RUN,
    ("GET", "/api/v1/alerts/{alert_id}/actions"): _ALERT,
    ("POST", "/api/v1/alerts/{alert_id}/actions"): Access(Scope.OPERATE, Reach.ALERT),
    ("GET", "/api/v1/silences"): _LIST,
    ("POST", "/api/v1/silences"): Access(Scope.OPERATE, Reach.FILTERED),
    ("POST", "/api/v1/silences/{silence_id}/end"): Access(Scope.OPERATE, Reach.FILTERED),
    ("GET", "/api/v1/rules"): _LIST,
    ("POST", "/api/v1/rules"): Access(Scope.OPERATE, Reach.FILTERED),
    ("POST", "/api/v1/rules/apply"): Access(Scope.OPERATE, Reach.FILTERED),
    ("POST", "/api/v1/rules/dry-run"): _LIST,
    ("GET", "/api/v1/rules/{rule_id}"): _LIST,
    ("PUT", "/api/v1/rules/{rule_id}"): Access(Scope.OPERATE, Reach.FILTERED),
    ("DELETE", "/api/v1/rules/{rule_id}"): Access(Scope.OPERATE, Reach.FILTERED),
    ("GET", "/api/v1/runs/{run_id}/rules"): _RUN,
    ("GET", "/api/v1/views"): _LIST,
    ("POST", "/api/v1/views"): Access(Scope.OPERATE, Reach.FILTERED),
    ("DELETE", "/api/v1/views/{view_id}"): Access(Scope.OPERATE, Reach.FILTERED),
    ("POST", "/api/v1/view"): Access(Scope.OPERATE, Reach.FILTERED),
    ("GET", "/api/v1/stream"): _LIST,
    ("POST", "/api/v1/sample"): Access(Scope.ADMIN, Reach.COLLECTOR),
    ("POST", "/api/v1/sample/ablation"): Access(Scope.ADMIN, Reach.COLLECTOR),
    ("GET", "/api/v1/notifications/channels"): Access(Scope.OPERATE, Reach.COLLECTOR),
    ("POST", "/api/v1/notifications/check"): Access(Scope.OPERATE, Reach.COLLECTOR),
    ("POST", "/api/v1/notifications/reload"): Access(Scope.ADMIN, Reach.COLLECTOR),
    ("POST", "/api/v1/notifications/channels/{name}/test"): Access(Scope.OPERATE, Reach.COLLECTOR),
    ("GET", "/api/v1/notifications/settings"): Access(Scope.ADMIN, Reach.COLLECTOR),
    ("PUT", "/api/v1/notifications/settings"): Access(Scope.ADMIN, Reach.COLLECTOR),
    ("GET", "/api/v1/notifications/settings/versions"): Access(Scope.ADMIN, Reach.COLLECTOR),
    ("POST", "/api/v1/notifications/settings/versions/{version}/restore"): Access(Scope.ADMIN, Reach.COLLECTOR),
    ("GET", "/api/v1/retention"): Access(Scope.READ, Reach.COLLECTOR),
    ("PUT", "/api/v1/retention"): Access(Scope.ADMIN, Reach.COLLECTOR),
    ("POST", "/api/v1/retention/preview"): Access(Scope.ADMIN, Reach.COLLECTOR),
    ("POST", "/api/v1/notifications/links/end"): Access(Scope.ADMIN, Reach.COLLECTOR),
    ("GET", "/api/v1/keys"): _ADMIN,
    ("POST", "/api/v1/keys"): _ADMIN,
    ("DELETE", "/api/v1/keys/{key}"): _ADMIN,
    ("GET", "/api/v1/audit"): _ADMIN,
    ("GET", "/api/v1/status"): Access(Scope.READ, Reach.COLLECTOR),
    ("POST", "/api/v1/session"): _PUBLIC,
    ("GET", "/api/v1/session"): Access(Scope.READ, Reach.NOTHING),
    ("DELETE", "/api/v1/session"): _PUBLIC,
    ("GET", "/api/v1/session/methods"): _PUBLIC,
    ("GET", "/api/v1/session/oidc"): _PUBLIC,
    ("GET", "/api/v1/session/oidc/callback"): _PUBLIC,
    ("GET", "/healthz"): _PUBLIC,
    ("GET", "/readyz"): _PUBLIC,  # only a caller with permission to read everything learns more than ready or not
    ("GET", "/metrics"): Access(Scope.READ, Reach.COLLECTOR),
    ("GET", "/docs"): _PAGE,
    ("GET", "/openapi.json"): _PAGE,
    ("GET", "/act/{token:path}"): _PUBLIC,  # the address is the right to act: signed, short-lived, for one use
    ("POST", "/act/{token:path}"): _PUBLIC,
    ("GET", "/sign-in"): _PUBLIC,
    ("GET", "/"): _PAGE,
    ("GET", "/compare"): _PAGE,
    ("GET", "/rules"): _PAGE,
    ("GET", "/settings"): _PAGE,
    ("GET", "/runs/{run_id}"): _PAGE,
    ("GET", "/runs/{run_id}/responses"): _PAGE,
    ("GET", "/runs/{run_id}/alerts/{alert_id}"): _PAGE,
    ("GET", "/_dash-layout"): _PAGE,
    ("GET", "/_dash-dependencies"): _PAGE,
    ("POST", "/_dash-update-component"): _PAGE,
    ("GET", "/_dash-component-suites/{path:path}"): _PUBLIC,
    ("GET", "/assets/{path:path}"): _PUBLIC,
    ("GET", "/_favicon.ico"): _PUBLIC,
}
NO_ROW: Final = Access(Scope.READ, Reach.NOTHING)
"""The requirement of a request without a row: without a key nobody learns which paths exist; with one it is refused."""

_COMPILED = [(route, *compile_path(route[1])[::2], access) for route, access in ROUTES.items()]


def find_access(method: str, path: str) -> tuple[Access, Mapping[str, Any]]:
    """Return the requirement of a request, and the parameters in its path; HEAD needs what GET needs."""
    method = "GET" if method == "HEAD" else method
    for candidate in (path, path.removesuffix("/")):  # the dashboard also serves its pages with a slash at the end
        for route, match, parsers, access in _matches(candidate):
            if route[0] == method:
                return access, {name: parsers[name].convert(text) for name, text in match.groupdict().items()}
    return NO_ROW, {}


def refuse_without_row(method: str, path: str) -> NoReturn:
    """Refuse a request that no row declares.

    Raises:
        MethodNotAllowed: If the path has rows with other methods.
        UnknownPath: If it has none.
    """
    declared = [route for route, *_ in _matches(path)]
    # A row with exactly this path takes precedence over one whose path has a matching parameter.
    allowed = [each for each, exact in declared if exact == path] or [each for each, _ in declared]
    if allowed:
        raise MethodNotAllowed(f"{method} is not served at {path}; see /docs", allowed)
    raise UnknownPath.at(path)


def _matches(path: str) -> Iterator[tuple[tuple[str, str], re.Match[str], Mapping[str, Any], Access]]:
    # The framework matches a path with a line end behind it like the path without it. A parameter here would take the
    # line end, and so the row would be another one than the route that answers.
    if "\n" not in path:
        for route, pattern, parsers, access in _COMPILED:
            if match := pattern.fullmatch(path):
                yield route, match, parsers, access


def check_routes(served: Iterable[tuple[str, str]]) -> None:
    """Check that each route, a method with a path, has an entry.

    Raises:
        UndeclaredRoute: If a route has none.
    """
    needed = {(method, path) for method, path in served if method != "HEAD"}
    missing = sorted(f"{method} {path}" for method, path in needed - ROUTES.keys())
    if missing:
        raise UndeclaredRoute(
            f"each route needs a scope in monitor_server/access/route_scopes.py, these have none: {', '.join(missing)}"
        )
