"""`python -m benchmarks.attacks`: what it sends gets in, and it ends with an error if not."""

import threading
import time
from http.server import BaseHTTPRequestHandler

import pytest

from benchmarks.attacks.attack_kinds import ATTACKS
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.settings import Settings
from tests.http_serving import serving_requests
from trainer_hooks import wire


def test_an_attack_that_should_get_in_is_read_and_must_not_be_refused():
    """A refusal is quick, so that the benchmark would tell how little a refusal costs."""
    sent, ends = [], threading.Event()

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sent.append((body, self.headers.get("Content-Encoding", "")))
            ends.set()
            self.send_response(413)
            self.end_headers()
            self.wfile.write(b"too large")

        def log_message(self, *_):
            """Print nothing."""

    with serving_requests(Refusing) as url, pytest.raises(RuntimeError, match="must answer 200, got 413"):
        ATTACKS["one step, sent without end"](url, ends)
    ((body, encoding),) = sent
    read_batch(body, media_type=wire.MSGPACK, encoding=encoding, settings=Settings(), now=time.time())
