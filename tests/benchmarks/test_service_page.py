"""`python -m benchmarks.service`: the page that it writes, what it says of the goals, and senders that fail."""

import re
from http.server import BaseHTTPRequestHandler

import pytest

from benchmarks import ingest
from benchmarks.service import command, peer_worker
from benchmarks.service.growth import memory_table
from benchmarks.service.throughput import ingest_goals, lag_goal
from tests.http_serving import serving_requests


def test_a_table_that_is_measured_anew_replaces_the_old_one_and_leaves_the_others(tmp_path, monkeypatch, capsys):
    """The page keeps its order, and begins with the introduction of today."""
    page = tmp_path / "page.md"
    page.write_text("Words of last year\n\n### Lag: 5 s\n\nold lag\n\n### Growth: 10 records\n\nold growth\n")
    monkeypatch.setitem(command.PARTS, "lag", lambda *_: "### Lag: 7 s\n\nnew lag")
    assert command.main(["--only", "lag", "--keep", str(tmp_path / "kept"), "--write", str(page)]) == 0
    assert "new lag" in capsys.readouterr().out
    introduction, lag, growth = page.read_text().split("\n\n### ")
    assert introduction.startswith("# Performance of one collector")
    assert lag.startswith("Lag: 7 s\n\nnew lag\n\n<small>")
    assert growth == "Growth: 10 records\n\nold growth\n"


def test_the_goals_of_ingest_name_who_misses_them():
    """The share of the bare route is judged for each collector, and each peer by the slowest of them."""
    found = {"bare": [100.0], "SQLite": [44.0, 44.0], "role ingest": [52.0], "mlflow server, by its own client": [8.8]}
    assert ingest_goals(found, {"SQLite": [0.43, 0.45], "role ingest": [0.52]}) == (
        "Goal: at least 0.5 of the bare route. These reach it: role ingest (0.52). These miss it: SQLite (0.44). "
        "Second goal: 10 times the steps of each peer's server. mlflow: missed, 5 to 6 times."
    )


def test_the_goal_of_the_lag_names_who_misses_it():
    """The highest lag is judged, because a trainer may send at any moment."""
    assert lag_goal({"SQLite": 0.79, "PostgreSQL": 1.02}) == (
        "Goal: under 1 s at every moment, missed by the highest lag of PostgreSQL (1.02 s)."
    )
    assert lag_goal({"SQLite": 0.79}) == "Goal: under 1 s at every moment, reached."


def test_a_peer_that_was_not_measured_reaches_and_misses_nothing():
    """A server that is not installed has no factor."""
    found = {"bare": [100.0], "SQLite": [60.0], "trackio server, by its own client": []}
    assert "trackio" not in ingest_goals(found, {"SQLite": [0.6]})


def test_the_memory_of_a_long_run_is_not_that_of_the_tables_before(tmp_path):
    """Memory that this process holds would hide a growth."""
    held = bytearray(b"x") * (1 << 29)
    table = memory_table({"SQLite": lambda: f"sqlite:///{tmp_path / 'r.db'}"}, steps=1_000)
    sizes = [float(each) for each in re.findall(r"([\d.]+) MiB", table)]
    assert len(sizes) == 7
    assert max(sizes) < len(held) >> 20


class Refusing(BaseHTTPRequestHandler):
    """A server that has no room."""

    def do_POST(self):
        """Refuse."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(503)
        self.end_headers()
        self.wfile.write(b"no room")

    def log_message(self, *_):
        """Print nothing."""


def test_a_sender_that_fails_ends_the_measurement():
    """The time after its end would count as measured, for our server and for a peer's."""
    with serving_requests(Refusing) as url, pytest.raises(RuntimeError, match="no room"):
        ingest.rate(url, 2, 60.0, label="x")
    with pytest.raises(ZeroDivisionError):
        peer_worker.rate(lambda *_: 1 / 0, 0.0, 60.0)
