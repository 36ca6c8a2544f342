"""The scripts that the dashboard keeps compressed are bounded, whatever addresses a client invents."""

import asyncio
import gzip

from dashboard.page_delivery import compression
from dashboard.page_delivery.compression import Compressed


def _scope(path):
    return {"type": "http", "path": path, "headers": [(b"accept-encoding", b"gzip")]}


def test_no_more_scripts_are_kept_than_there_is_room_for(monkeypatch):
    """Two of four are compressed once; the others are answered each time, with the same body."""
    monkeypatch.setattr(compression, "MAX_KEPT", 2)
    served = []

    async def app(scope, _receive, send):
        served.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode() * 1_000})

    async def ask_twice():
        compressed, bodies = Compressed(app), []

        async def keep(message):
            if message["type"] == "http.response.body":
                bodies.append(gzip.decompress(message["body"]))

        for path in paths * 2:
            await compressed(_scope(path), None, keep)
        return bodies

    paths = [f"{compression.SCRIPTS}{number}.js" for number in range(4)]
    assert asyncio.run(ask_twice()) == [path.encode() * 1_000 for path in paths] * 2
    assert served == [*paths, *paths[2:]]
