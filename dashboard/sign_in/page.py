"""The page on which a browser shows its key, and the routes of a dashboard outside the collector's process.

Where the collector knows an OpenID Connect provider, the page has a link to it: the collector then sends the browser
there, and back. The page's script sends a key as JSON to the collector's `/api/v1/session`, which answers with a cookie
that no script can read. A form of another site can send no JSON, so it cannot sign anybody in.
"""

from typing import Final

import httpx2
from fastapi import FastAPI, Request, Response
from starlette.requests import Request as PlainRequest
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from dashboard.sign_in.credentials import current_credentials, remember_credentials
from dashboard.theme import style_sheet
from dashboard.transport import ResetReportingTransport

__all__ = ["forward_requests", "sign_in_route"]

SESSION: Final = "/api/v1/session"
COOKIES: Final = {"rlvitals_session": False, "__Host-rlvitals_session": True}  # the collector's; is it for TLS alone
FORWARD_SECONDS: Final = 20.0  # the collector asks the OpenID Connect provider up to three times, 5 s each
POLICY: Final = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)

PAGE: Final = """<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Sign in · rlvitals</title>
    <link rel="icon" href="/assets/favicon.svg" type="image/svg+xml">
    <style>STYLE</style>
    <link rel="stylesheet" href="/assets/style.css">
    <script src="/assets/theme.js"></script>
    <script src="/assets/sign_in.js" defer></script>
  </head>
  <body>
    <main class="card message sign-in">
      <h1>Sign in</h1>
      <form id="sign-in">
        <label for="key">Key</label>
        <input id="key" name="key" type="password" autocomplete="current-password" required autofocus>
        <button type="submit">Sign in</button>
        <p id="refusal" role="alert"></p>
      </form>
      <p id="provider" hidden>or <a href="/api/v1/session/oidc">sign in with <span id="provider-name"></span></a></p>
      <p>A key begins with <code>rlv_</code>. The administrator of this collector makes one with
        <code>rlvitals keys create NAME <span class="option">--scope read</span></code>.</p>
    </main>
  </body>
</html>"""


def sign_in_route() -> Route:
    """Return the route of the page."""
    page = PAGE.replace("STYLE", style_sheet())

    async def sign_in(_: PlainRequest) -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})

    return Route("/sign-in", sign_in, methods=["GET"], name="sign-in")


def forward_requests(app: FastAPI, api_url: str) -> None:
    """Forward sign-in, sign-out and the list of alerts to the collector, for a dashboard in a separate process."""

    async def forward(request: Request) -> Response:
        remember_credentials(request.scope["headers"])
        headers = [(b"content-type", b"application/json"), *current_credentials()]
        # The route also matches its path with a line end behind it, and no request can have such an address.
        path = request.scope["route"].path + (f"?{query}" if (query := request.url.query) else "")
        try:
            transport = ResetReportingTransport(trust_env=False)
            asking = httpx2.AsyncClient(base_url=api_url, timeout=FORWARD_SECONDS, transport=transport, trust_env=False)
            async with asking as client:
                answer = await client.request(request.method, path, content=await request.body(), headers=headers)
        except httpx2.HTTPError as error:
            return _unreachable(request.method, f"The collector does not answer ({type(error).__name__}); try again")
        forwarded = Response(answer.content, status_code=answer.status_code, media_type="application/json")
        if "location" in answer.headers:
            forwarded.headers["location"] = answer.headers["location"]
        for cookie in answer.headers.get_list("set-cookie"):
            forwarded.headers.append("set-cookie", cookie)
        return forwarded

    app.add_api_route(SESSION, forward, methods=["GET", "POST", "DELETE"])
    for path in ("methods", "oidc", "oidc/callback"):
        app.add_api_route(f"{SESSION}/{path}", forward, methods=["GET"])
    app.add_api_route("/api/v1/alerts", forward, methods=["GET"])  # to which the page of a run links


def _unreachable(method: str, detail: str) -> Response:
    """Return the answer where the collector gives none; a sign-out needs none, for it only removes the cookie."""
    if method != "DELETE":
        return JSONResponse({"error": "Unreachable", "detail": detail}, status_code=httpx2.codes.BAD_GATEWAY)
    answer = JSONResponse({"status": "signed out"})
    for name, secure in COOKIES.items():
        answer.delete_cookie(name, httponly=True, samesite="lax", secure=secure)
    return answer
