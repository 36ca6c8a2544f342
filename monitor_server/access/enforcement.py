"""Checks every request before its body is read: the sender, its permission, and the amount that it has sent.

This is the only place with such checks. A route does not mention keys: `route_scopes` does, and a route without a row
there is closed. Routes that concern several projects read the caller, which this module puts into the request's scope.
"""

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor_server.access.callers import Caller
from monitor_server.access.cursors import CURSOR_SECRET
from monitor_server.access.identification import Identification
from monitor_server.access.rate_limits import RateLimits
from monitor_server.access.route_scopes import NO_ROW, Access, Reach, find_access, refuse_without_row
from monitor_server.errors import (
    CollectorError,
    KeyRequired,
    ScopeTooSmall,
    UnknownAlert,
    UnknownProject,
    UnknownRun,
)
from monitor_server.errors.answering import opens_page, refuse
from monitor_server.store.database import Store
from monitor_server.text_safety.printable import printable

__all__ = ["CALLER", "ENFORCEMENT", "Enforcement"]

CALLER: Final = "rlvitals.caller"
ENFORCEMENT: Final = "rlvitals.enforcement"
# A proxy does not report that a user has signed out. So a long answer ends after this time, and the next request passes
# the proxy again.
PROXY_USER_SECONDS: Final = 600.0
SIGN_IN: Final = "/sign-in"
# The dashboard answers below this path, and sends requests to the API on behalf of the browser.
DASHBOARD_UPDATES: Final = "/_dash-"


class Enforcement:
    """Wraps the application, and passes on only those requests whose sender has the permission.

    Args:
        app: The application.
        identification: Recognises callers.
        limits: The amount that each key may send.
        store: The database with the projects of runs and alerts.
    """

    def __init__(self, app: ASGIApp, *, identification: Identification, limits: RateLimits, store: Store) -> None:
        self._app = app
        self._identification = identification
        self._limits = limits
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        access, parameters = find_access(scope["method"], scope["path"])
        try:
            caller = self._identify(scope, access)
            counted = None if caller is None else caller.counted_as
            if counted is not None:
                self._limits.count_request(counted)  # refused ones as well: the project of a run is read for them
            if caller is not None and access.scope is not None:
                _check_scope(caller, access)
                await self._check_project(caller, access, parameters, scope)
            if access is NO_ROW:
                # The request is not passed on: another part, such as a route of Dash, could answer it without a
                # declared scope.
                refuse_without_row(scope["method"], scope["path"])
        except KeyRequired as error:
            await (_redirect(scope, send) if opens_page(scope) else refuse(error, send, scope=scope))
            return
        except CollectorError as error:
            await refuse(error, send, scope=scope)
            return
        scope[CALLER], scope[ENFORCEMENT] = caller, self
        if caller is not None and caller.name is not None and scope["path"].startswith(DASHBOARD_UPDATES):
            scope = self._delegated_scope(scope, caller)
        token = CURSOR_SECRET.set(self._cursor_secret(caller))
        try:
            await self._app(scope, receive if counted is None else self._counting(receive, counted), send)
        finally:
            CURSOR_SECRET.reset(token)

    def rechecking(self, scope: Scope, *, is_stream: bool = True) -> Callable[[], str | None]:
        """Return a function that gives the reason if the request would now be refused, during a long answer, or None.

        The reasons are that the key or the session has ended, that the rights of its holder have changed, that keys are
        now required, or that a user of a proxy was admitted more than `PROXY_USER_SECONDS` ago. The last reason does
        not apply to an answer that is not a stream, because the client could not resume it.
        """
        access, _ = find_access(scope["method"], scope["path"])
        caller: Caller = scope[CALLER]
        is_proxy_user = is_stream and caller.name is not None and caller.key_id is None
        until = monotonic() + PROXY_USER_SECONDS

        def refusal() -> str | None:
            try:
                found = self._identify(scope, access)
                if found is not None:
                    _check_scope(found, access)
            except CollectorError as error:
                return printable(error, longest=300)
            if found is None or (found.key_id, found.project) != (caller.key_id, caller.project):
                return "the permission of the key or the session has changed; open the stream again"
            if is_proxy_user and monotonic() >= until:
                return "the proxy must confirm your name again; open the stream again"
            return None

        return refusal

    def _cursor_secret(self, caller: Caller | None) -> bytes | None:
        if caller is None or caller.project is None or caller.key_id is None:
            return None
        key = self._identification.keys.find(caller.key_id)
        return None if key is None else key.session_secret

    def _identify(self, scope: Scope, access: Access) -> Caller | None:
        address = (scope.get("client") or ("", 0))[0]
        try:
            caller = self._identification.identify(Headers(scope=scope), address, scheme=scope["scheme"])
        except KeyRequired:
            if access.scope is None:
                return None
            raise
        if caller is None and access.scope is not None:
            raise KeyRequired(
                "this collector needs a key: send it as `Authorization: Bearer rlv_...` (RLVITALS_API_KEY), or sign in "
                f"at {SIGN_IN}"
            )
        return caller

    async def _check_project(self, caller: Caller, access: Access, parameters: Mapping[str, Any], scope: Scope) -> None:
        """Restrict a key of one project to it; it is answered as if other projects did not exist."""
        if caller.project is None:
            return
        if access.reach is Reach.COLLECTOR:
            raise ScopeTooSmall(
                "this request needs a key for every project, and this key is for one; ask for a key without a project"
            )
        if access.reach is Reach.PROJECT:
            named = (
                [parameters["name"]] if "name" in parameters else QueryParams(scope["query_string"]).getlist("project")
            )
            for name in named:
                if name != caller.project:
                    raise UnknownProject.by_name(name)
        if access.reach in (Reach.RUN, Reach.ALERT):
            is_run = access.reach is Reach.RUN
            id_ = parameters["run_id" if is_run else "alert_id"]
            if await asyncio.to_thread(self._project_of, id_, is_run=is_run) != caller.project:
                raise UnknownRun.by_id(id_) if is_run else UnknownAlert.by_id(id_)

    def _project_of(self, id_: str, *, is_run: bool) -> str | None:
        with self._store.read() as reading:
            return reading.runs.project(id_) if is_run else reading.alerts.project(id_)

    def _delegated_scope(self, scope: Scope, caller: Caller) -> Scope:
        """Return a scope in which a delegation for the API replaces the browser's own credentials."""
        scope = {
            **scope,
            "headers": [each for each in scope["headers"] if each[0] not in (b"cookie", b"authorization")],
        }
        MutableHeaders(scope=scope)["authorization"] = f"Bearer {self._identification.delegation.sign(caller)}"
        return scope

    def _counting(self, receive: Receive, counted: str) -> Receive:
        async def counting() -> Message:
            message = await receive()
            self._limits.count_bytes(counted, len(message.get("body", b"")))
            return message

        return counting


def _check_scope(caller: Caller, access: Access) -> None:
    if access.scope is not None and not caller.may(access.scope):
        raise ScopeTooSmall(f"this needs a key with the scope {access.scope}, and this one has {caller.scope}")


async def _redirect(scope: Scope, send: Send) -> None:
    wanted = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
    location = f"{SIGN_IN}?next={quote(wanted, safe='')}".encode()
    await send({"type": "http.response.start", "status": 303, "headers": [(b"location", location)]})
    await send({"type": "http.response.body", "body": b""})
