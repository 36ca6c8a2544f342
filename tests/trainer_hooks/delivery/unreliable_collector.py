"""A real HTTP server that answers each batch in a way drawn at random, and keeps what it has stored and refused."""

import contextlib
import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

from tests.http_serving import serving_requests
from trainer_hooks.wire import MSGPACK, Receipt, Record, Rejection, decode_batch, decode_record, encode

# Each answer is a method of `Handler`.
ANSWERS = (
    "busy",
    "broken",
    "cut",
    "endless",
    "garbage",
    "huge",
    "redirect",
    "refuse",
    "reject",
    "receipt",
    "receipt",
)


class UnreliableCollector:
    """Answers in ways drawn at random; a calm collector stores everything.

    Attributes:
        url: Its address.
        is_calm: Whether it answers every batch with a receipt.
        stored: The body of each stored record by attempt and sequence number, once for each arrival.
        refused: The records that it has refused, alone or with their batch.
    """

    def __init__(self, seed: int) -> None:
        self.url = ""
        self.is_calm = False
        self.stored: dict[tuple[int, int | None], list[bytes]] = {}
        self.refused: list[Record] = []
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._lock = threading.Lock()

    def draw(self) -> str:
        """Draw the kind of the next answer."""
        with self._lock:
            return "receipt" if self.is_calm else self._random.choice(ANSWERS)

    def store(self, body: bytes, *, but: int = 0) -> Receipt:
        """Store the records of a batch without the first few, and return the receipt that refuses these."""
        batch = decode_batch(body)
        with self._lock:
            for index, raw in enumerate(batch.records):
                record = decode_record(raw)
                if index < but:
                    self.refused.append(record)
                else:
                    self.stored.setdefault((batch.attempt, record.seq), []).append(bytes(raw))
        count = min(but, len(batch.records))
        rejected = [Rejection(index=index, error="E", detail="no") for index in range(count)]
        return Receipt(run_id="r", accepted=len(batch.records) - count, rejected=rejected)


class Handler(BaseHTTPRequestHandler):
    """One connection of a trainer."""

    protocol_version = "HTTP/1.1"
    collector: UnreliableCollector

    def do_POST(self) -> None:
        """Read a batch and answer it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with contextlib.suppress(OSError):  # the trainer does not wait for all answers
            getattr(self, self.collector.draw())(body)

    def give(self, status: int, answer: bytes, **headers: str) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in ({"Content_Length": str(len(answer))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(answer)

    def receipt(self, body: bytes) -> None:
        """Store the batch."""
        self.give(200, encode(self.collector.store(body)), Content_Type=MSGPACK)

    def reject(self, body: bytes) -> None:
        """Store all records but the first."""
        self.give(200, encode(self.collector.store(body, but=1)), Content_Type=MSGPACK)

    def refuse(self, body: bytes) -> None:
        """Refuse the batch, but not for its configuration: it is sent again without it."""
        if not decode_batch(body).config:
            self.collector.store(body, but=len(body))
        self.give(422, json.dumps({"error": "E", "detail": "no"}).encode())

    def busy(self, _body: bytes) -> None:
        """Ask to wait."""
        self.give(503, b"{}", Retry_After="0")

    def broken(self, _body: bytes) -> None:
        """Fail."""
        self.give(500, b"oops")

    def cut(self, body: bytes) -> None:
        """Store the batch, and close the connection in the middle of the answer."""
        answer = encode(self.collector.store(body))
        self.give(200, answer[:-2], Content_Length=str(len(answer)))
        self.close_connection = True

    def endless(self, body: bytes) -> None:
        """Store the batch, and never stop answering."""
        self.collector.store(body)
        while True:
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 10)

    def garbage(self, _body: bytes) -> None:
        """Answer as a page where one signs in."""
        self.give(200, b"<html>please log in</html>")

    def huge(self, _body: bytes) -> None:
        """Answer with more than anybody reads."""
        self.give(200, b"\0" * (3 << 20))

    def redirect(self, _body: bytes) -> None:
        """Name another address."""
        self.give(307, b"", Location="/elsewhere")

    def log_message(self, *_: object) -> None:
        """Do nothing."""


@contextlib.contextmanager
def unreliable_collector(seed: int) -> Iterator[UnreliableCollector]:
    """Yield a collector that listens."""
    collector = UnreliableCollector(seed)
    with serving_requests(type("Bound", (Handler,), {"collector": collector})) as collector.url:
        yield collector
