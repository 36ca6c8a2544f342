"""Makes a collector refuse requests to its API, such as one that is overloaded."""

import json

__all__ = ["REFUSAL", "Failing"]

REFUSAL = {"error": "Overloaded", "detail": "as many requests wait as may wait"}


class Failing:
    """Answers requests to a collector's API with a status while one is set, except those of trainers and listeners."""

    def __init__(self, live):
        self._app, live.app.middleware_stack = live.app.middleware_stack, self
        self.status = self.count = 0  # the status, and how many requests have failed
        self.answer = REFUSAL
        self.method = ""  # of the requests that fail; all where it is empty

    async def __call__(self, scope, receive, send):
        """Answer one request."""
        path = scope.get("path", "")
        is_asked = path.startswith("/api/v1/") and path not in ("/api/v1/ingest", "/api/v1/stream", "/api/v1/session")
        if not (self.status and is_asked and scope["method"].startswith(self.method)):
            await self._app(scope, receive, send)
            return
        self.count += 1
        headers = [(b"content-type", b"application/json"), (b"retry-after", b"1")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(self.answer).encode()})
