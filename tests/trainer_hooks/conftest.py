"""A real HTTP server that captures and decodes requests of trainers, and the rule that tests swallow no error."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from trainer_hooks.delivery import DropCounter
from trainer_hooks.wire import MSGPACK, Batch, Receipt, Record, decode_batch, decode_record, encode

Answer = tuple[int, bytes, dict[str, str]]


@dataclass
class Collector:
    """The captured requests and their answers; the default answer is a receipt for everything."""

    url: str = ""
    batches: list[Batch] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)  # of the clients' ends of the connections
    receipt: Callable[[Batch], Receipt] = lambda batch: Receipt(run_id="r", accepted=len(batch.records))
    answers: list[Answer] = field(default_factory=list)  # given first, oldest first; these batches count as not taken
    arrived: threading.Condition = field(default_factory=threading.Condition)

    @property
    def records(self) -> list[Record]:
        """Every record taken, in order of arrival."""
        return [decode_record(raw) for batch in self.batches for raw in batch.records]

    def wait_for(self, condition: Callable[["Collector"], bool]) -> None:
        """Wait until a condition holds for the requests that have arrived."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: condition(self), PATIENCE_SECONDS), self.batches

    def answer(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """Take a batch and answer it."""
        assert path == "/api/v1/ingest"
        with self.arrived:
            self.headers.append(headers)
            if self.answers:
                answer = self.answers.pop(0)
            else:
                batch = decode_batch(body)
                self.batches.append(batch)
                answer = (200, encode(self.receipt(batch)), {"Content-Type": MSGPACK})
            self.arrived.notify_all()
        return answer


def serve(collector: Collector) -> ThreadingHTTPServer:
    """Start a server for a collector on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.ports.append(self.client_address[1])
            status, answer, headers = collector.answer(self.path, body, dict(self.headers))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Do nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A live collector that takes everything; who closes a monitor waits for its answer as long as it takes."""
    monkeypatch.setitem(trainer_hooks.Monitor.__init__.__kwdefaults__, "close_timeout_seconds", PATIENCE_SECONDS)
    collector = Collector()
    server = serve(collector)
    yield collector
    server.shutdown()
    server.server_close()


@pytest.fixture
def connect(collector: Collector) -> Iterator[Callable[..., trainer_hooks.Monitor]]:
    """`trainer_hooks.connect` to the live collector, closed after the test."""
    monitors: list[trainer_hooks.Monitor] = []

    def connect(**options: object) -> trainer_hooks.Monitor:
        monitor = trainer_hooks.connect(collector.url, **({"run": "r1"} | options))
        monitors.append(monitor)
        return monitor

    yield connect
    for monitor in monitors:
        monitor.close()


@pytest.fixture(autouse=True)
def swallowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Exception]]:
    """Raise after the test the errors that production swallows; a test that expects them clears the list."""
    errors: list[Exception] = []
    swallow = DropCounter.count_error

    def keep(drops: DropCounter, error: Exception, **lost: object) -> None:
        errors.append(error)
        swallow(drops, error, **lost)

    monkeypatch.setattr(DropCounter, "count_error", keep)
    yield errors
    if errors:
        raise errors[0]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the environment's own ranks and settings."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_START_TIME"):
        monkeypatch.delenv(name, raising=False)
    for name in (
        "URL",
        "API_KEY",
        "PROJECT",
        "RUN",
        "ATTEMPT",
        "SPOOL_DIR",
        "SPOOL_BYTES",
        "RESPONSES",
        "RESPONSE_BYTES",
        "RESPONSE_SECONDS",
        "TEXTS",
    ):
        monkeypatch.delenv(f"RLVITALS_{name}", raising=False)
