"""The table of runs as CSV, from a collector whose order of runs changes while it is read."""

import csv
import socket
import threading

import pytest
import uvicorn
from fastapi import FastAPI

from dashboard.pages.fleet import table_rows
from tests.dashboard.callbacks import Callbacks

RUNS = 1500


@pytest.fixture
def moving_url():
    """The address of a collector where the last run of the order becomes the first after each answer."""
    runs = [
        {"id": f"r{n}", "name": f"r{n}", "project": "p", "status": "running", "phase": "healthy"} for n in range(RUNS)
    ]
    order = [run | {"reward": 0.123456789} for run in runs]
    newest_first = list(order)
    app = FastAPI()

    @app.get("/api/v1/runs")
    def listed(limit: int, sort: str = "", offset: int = 0, cursor: int = 0) -> dict[str, object]:
        if not sort:
            end = cursor + limit
            return {"items": newest_first[cursor:end], "next": str(end) if end < RUNS else None, "total": RUNS}
        part = order[offset : offset + limit]
        order.insert(0, order.pop())
        return {"items": part, "next": None, "total": RUNS}

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_every_run_is_one_line_with_exact_numbers(moving_url):
    """The run that moved from one part of the list to another is there once."""
    asked = {"columns": ["run", "reward"]}
    saved = Callbacks(moving_url, table_rows).call("export", asked, "", None, "all", None, [])
    rows = list(csv.DictReader(saved["content"].splitlines()))
    assert sorted(row["Run"] for row in rows) == sorted(f"r{n}" for n in range(RUNS))
    assert {row["Reward"] for row in rows} == {"0.123456789"}
