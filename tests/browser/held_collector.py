"""A collector whose answers are held back."""

import asyncio


class Held:
    """Holds the answers of a collector's API back while it is closed, but those for the paths that are passed."""

    def __init__(self, live):
        self._app, live.app.middleware_stack = live.app.middleware_stack, self
        self._loop, self._gate = None, asyncio.Event()
        self._gate.set()
        self._passed = set()

    def close(self, passed=("/api/v1/ingest", "/api/v1/stream")):
        """Let every request from now on wait."""
        self._gate, self._passed = asyncio.Event(), passed

    def open(self):
        """Answer those that wait, and all that follow."""
        self._loop.call_soon_threadsafe(self._gate.set)

    async def __call__(self, scope, receive, send):
        """Answer one request. No thread waits for the gate: ingest needs those that there are."""
        self._loop = asyncio.get_running_loop()
        path = scope.get("path", "")
        if path.startswith("/api/v1/") and path not in self._passed:
            await self._gate.wait()
        await self._app(scope, receive, send)
