"""Refuses all pages of a dashboard that other machines reach while its collector serves everybody without a key.

Such a collector listens on the loopback only, because everybody who reaches it is an administrator. A dashboard beside
it would pass on the requests of other machines.
"""

import ipaddress
import time
from collections.abc import Callable
from typing import Final

import httpx2
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.transport import ResetReportingTransport

__all__ = ["RequiredKeys", "is_loopback"]

ASK_SECONDS: Final = 10.0
# A collector whose database was made anew serves without keys again.
KEPT_SECONDS: Final = 1.0
ADVICE: Final = (
    "The collector serves everybody without a key, and other machines reach this dashboard. Make a key with `rlvitals "
    "keys create admin --scope admin` on the machine of the collector, or listen on RLVITALS_DASHBOARD_HOST=127.0.0.1 "
    "without RLVITALS_ALLOWED_HOSTS, or let anyone who reaches the dashboard read and write with "
    "RLVITALS_INSECURE=true."
)
AWAY: Final = "The collector does not answer, so it is not known whether it needs a key; try again."
UNCLEAR: Final = (
    "The collector answered {status}, so it is not known whether it needs a key. Check RLVITALS_API_URL of the "
    "dashboard, and RLVITALS_ALLOWED_HOSTS of the collector."
)


class RequiredKeys:
    """Wraps the application, and passes requests on while the collector refuses those without a key.

    A collector that needed keys and is away is taken to need them still, so that pages which are open say that it is.

    Args:
        app: The application.
        api_url: Where the dashboard reaches the collector's HTTP API.
        clock: The time in seconds.
    """

    def __init__(self, app: ASGIApp, api_url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._api_url = api_url
        self._clock = clock
        self._is_closed = False
        self._ask_at = clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["path"] != "/healthz" and self._is_due():
            # A collector that needed keys is not asked before each request while it is away: it may let each wait.
            self._ask_at = self._clock() + KEPT_SECONDS
            refusal = await self._ask()
            self._is_closed = refusal is None or (self._is_closed and refusal != ADVICE)
            if not self._is_closed:
                await PlainTextResponse(refusal, status_code=503)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_due(self) -> bool:
        return not self._is_closed or self._clock() >= self._ask_at

    async def _ask(self) -> str | None:
        """Ask the collector without credentials, and return why requests must not be passed on, or None."""
        transport = ResetReportingTransport(trust_env=False)
        try:
            asking = httpx2.AsyncClient(
                base_url=self._api_url, timeout=ASK_SECONDS, transport=transport, trust_env=False
            )
            async with asking as client:
                answer = await client.get("/api/v1/session")
        except httpx2.HTTPError:
            return AWAY
        if answer.status_code == httpx2.codes.UNAUTHORIZED:
            return None
        return ADVICE if answer.is_success else UNCLEAR.format(status=answer.status_code)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a server that is bound to an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
