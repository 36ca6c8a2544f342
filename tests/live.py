"""A real collector on a free port of this machine, and ways to ask it; the fixtures are in conftest.py."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import urllib3

from monitor_server.app import create_app, create_server
from monitor_server.http_server.server import bind
from monitor_server.settings import Settings
from tests.patience import PATIENCE_SECONDS, eventually
from trainer_hooks import wire

# A collector of the whole session mostly waits, and each tick is a handful of queries. A test of the work of a tick has
# its own collector.
IDLE_TICK_SECONDS = 5.0


@dataclass(frozen=True)
class LiveCollector:
    """A collector that listens, and a few ways to ask it.

    Attributes:
        url: Its address.
        app: The application.
        pool: Connections to it.
        server: The server that runs it.
        thread: The thread of the server.
        is_shared: Whether many tests use it. A batch of one test may wait behind the runs of another. Its receipt then
            does not wait for the verdict, so `send` waits.
    """

    url: str
    app: Any
    pool: urllib3.PoolManager
    server: Any = None
    thread: Any = None
    is_shared: bool = False

    def stop(self) -> None:
        """Stop the collector, and wait until all its threads have ended."""
        self.server.should_exit = True
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()

    def get(self, path: str, **query: Any) -> Any:
        """Return the JSON at a path below /api/v1."""
        answer = self.pool.request("GET", f"{self.url}/api/v1{path}", fields=query or None)
        assert answer.status == 200, answer.data
        return answer.json()

    def post(self, body: bytes, *, media_type: str = wire.JSON, encoding: str | None = None) -> Any:
        """Send a body to ingest and give the answer with its status."""
        headers = {"Content-Type": media_type} | ({"Content-Encoding": encoding} if encoding else {})
        return self.pool.request("POST", f"{self.url}/api/v1/ingest", body=body, headers=headers)

    def send(self, **batch: Any) -> dict[str, Any]:
        """Send a batch as JSON and give its receipt."""
        answer = self.post(json.dumps({"schema_version": wire.SCHEMA_VERSION} | batch).encode())
        assert answer.status == 200, answer.data
        receipt: dict[str, Any] = answer.json()
        if self.is_shared:
            eventually(lambda: self.is_projected(receipt["run_id"]))
        return receipt

    def is_projected(self, run_id: str) -> bool:
        """Whether the steps of a run can be read; on a busy machine a receipt does not wait for them behind others."""
        with self.app.state.collector.store.read() as repositories:
            run = repositories.runs.find(run_id)
        return run is None or run.quarantined_at is not None or run.is_projected

    def run(self, **batch: Any) -> str:
        """Send a batch and give its run's id."""
        return self.send(**batch)["run_id"]


@contextlib.contextmanager
def serving_all_tests(database_url: str) -> Iterator[LiveCollector]:
    """Run a collector for the whole session. A test that has sent a batch reads the projected steps from it.

    Its receipts wait for their verdicts also on a machine that is busy.
    """
    settings = Settings(
        database_url=database_url,
        dashboard="",
        tick_seconds=IDLE_TICK_SECONDS,
        verdict_wait_seconds=PATIENCE_SECONDS,
    )
    with serving(settings) as live:
        yield replace(live, is_shared=True)


@contextlib.contextmanager
def serving(settings: Settings, *, port: int = 0, **options: Any) -> Iterator[LiveCollector]:
    """Run a collector in a thread until the block ends, at a free port or at the one that is given."""
    listening = bind(settings.host, port)
    port = listening.getsockname()[1]
    app = create_app(settings.model_copy(update={"port": port}), **options)
    server = create_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="collector")
    thread.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    with urllib3.PoolManager(maxsize=8, retries=False, timeout=PATIENCE_SECONDS) as pool:
        try:
            yield LiveCollector(f"http://127.0.0.1:{port}", app, pool, server, thread)
        finally:
            server.should_exit = True
            thread.join()
            listening.close()


@contextlib.contextmanager
def listening(live: LiveCollector, **query: str) -> Iterator[Iterator[tuple[Any, Any]]]:
    """Listen to the stream, and yield its events as (event, data), without the comments that keep it open.

    On PostgreSQL this waits for the collector's relay first: a subscriber who is earlier learns that it may have missed
    events, by the event ``dropped``.
    """
    collector = live.app.state.collector
    eventually(lambda: collector.relay.is_listening or not collector.store.is_shared)
    answer = live.pool.request("GET", f"{live.url}/api/v1/stream", fields=query, preload_content=False)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = _events(answer)
    assert next(events) == (None, None)
    try:
        yield (event for event in events if event != (None, None))
    finally:
        answer.close()


def _events(answer: Any) -> Iterator[tuple[Any, Any]]:
    kind = data = None
    while line := answer.readline():
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            kind = text[7:]
        elif text.startswith("data: "):
            data = json.loads(text[6:])
        elif not text:
            yield kind, data
            kind = data = None
