"""The dashboard in a process of its own, which forwards the browser's live stream and its downloads."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import ASGIApp

from dashboard.app import attach
from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError
from dashboard.collector_client.http_requests import without_credentials
from dashboard.sign_in.credentials import remember_credentials
from dashboard.sign_in.page import forward_requests
from dashboard.sign_in.required_keys import RequiredKeys, is_loopback
from monitor_server.http_server.host_policy import HostPolicy
from monitor_server.http_server.security import SecuredApp, SecurityMiddleware

__all__ = ["create_app"]

MAX_REQUEST_BYTES: Final = 1024 * 1024  # no page sends a tenth of that


def create_app(
    *, api_url: str, connect_url: str = "", host: str = "127.0.0.1", allowed_hosts: str = "", insecure: bool = False
) -> FastAPI:
    """Create a dashboard outside the collector's process; it forwards the browser's live stream and its downloads.

    Args:
        api_url: Where the dashboard reaches the collector's HTTP API.
        connect_url: The address that trainers should use; ``api_url`` if empty.
        host: The address that the server is bound to.
        allowed_hosts: Further names under which it may be addressed, separated by commas.
        insecure: Whether other machines may use a collector that needs no key.
    """
    app = SecuredApp(title="rlvitals dashboard", docs_url=None, redoc_url=None, openapi_url=None)
    hosts = HostPolicy.of(bound_to=host, allowed=allowed_hosts.split(","))

    def secure(inner: ASGIApp) -> ASGIApp:
        names = [name.strip() for name in allowed_hosts.split(",") if name.strip()]  # of another machine: by a proxy
        is_open = insecure or all(map(is_loopback, (host, *names)))
        guarded = inner if is_open else RequiredKeys(inner, api_url)
        return SecurityMiddleware(guarded, hosts=hosts, max_body_bytes=MAX_REQUEST_BYTES)

    app.secure = secure

    @app.api_route("/healthz", methods=["GET", "HEAD"])
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/api/v1/stream")
    async def stream(request: Request, run_id: str | None = None) -> Response:
        remember_credentials(request.scope["headers"])
        client = ApiClient(api_url)  # made here, because here the credentials are those of this request

        async def events() -> AsyncGenerator[bytes]:
            async with client as api:
                async for chunk in api.stream(run_id):
                    yield chunk

        chunks = events()
        try:
            first = await anext(chunks, b"")  # the browser assumes that an open stream misses no event
        except ApiError as error:
            return PlainTextResponse(str(error), status_code=error.status)
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(_join(first, chunks), media_type="text/event-stream", headers=headers)

    @app.get("/api/v1/alerts/{alert_id}/incident")
    async def incident(request: Request, alert_id: str) -> Response:
        remember_credentials(request.scope["headers"])
        try:
            async with ApiClient(api_url) as api:
                report = await api.alerts.incident(alert_id)
        except ApiError as error:
            return PlainTextResponse(str(error), status_code=error.status)
        headers = {"Content-Disposition": f'attachment; filename="incident-{alert_id}.html"'}
        return Response(report, media_type="text/html", headers=headers)

    shown_url = connect_url or without_credentials(api_url)

    @app.get("/docs")
    async def docs() -> RedirectResponse:
        return RedirectResponse(f"{shown_url.rstrip('/')}/docs")

    forward_requests(app, api_url)
    attach(app, api_url=api_url, connect_url=shown_url)
    return app


async def _join(first: bytes, others: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with contextlib.aclosing(others):
        yield first
        async for chunk in others:
            yield chunk
