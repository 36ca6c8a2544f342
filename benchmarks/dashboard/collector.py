"""A collector with its dashboard, and the runs that are sent to it."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from benchmarks.collectors import wait_until_served

__all__ = [
    "PORT",
    "SIGNALS",
    "URL",
    "feed",
    "feed_long",
    "newest_steps",
    "served_dashboard",
    "wait_until_projected",
]

PORT = 8699
URL = f"http://127.0.0.1:{PORT}"
SIGNALS = ("likelihood/correct", "likelihood/incorrect", "reward/mean", "grad/norm", "entropy/mean", "ratio/max")


@contextmanager
def served_dashboard() -> Iterator[int]:
    """Run a collector with its dashboard on an empty store; give its process id."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"RLVITALS_DATABASE_URL": f"sqlite:///{folder}/bench.db", "RLVITALS_PORT": str(PORT)}
        server = subprocess.Popen([sys.executable, "-m", "monitor_server", "serve"], env=environment)
        try:
            wait_until_served(f"{URL}/readyz", lambda: server.poll() is None, seconds=60)
            yield server.pid
        finally:
            server.terminate()
            server.wait()


def feed(run: str, first: int, last: int, signals: Sequence[str] = SIGNALS) -> str:
    """Send steps [first, last) and give the run's id."""
    run_id = ""
    for start in range(first, last, 1000):
        records = [
            {
                "step": step,
                "scalars": {name: 0.5 + 0.1 * ((step * 7 + place) % 5) for place, name in enumerate(signals)},
            }
            for step in range(start, min(start + 1000, last))
        ]
        body = json.dumps({"schema_version": 1, "run": run, "capability": "L3", "records": records}).encode()
        request = urllib.request.Request(  # noqa: S310 - our own address
            f"{URL}/api/v1/ingest", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own address
            run_id = json.load(answer)["run_id"]
    return run_id


def feed_long(asked: argparse.Namespace) -> str:
    """Send the long run unless it is there, wait until it is projected, and return its id."""
    run_id = feed("long", 0, 1, _signal_names(asked))
    if newest_steps().get("long", -1) < asked.steps - 1:
        feed("long", 1, asked.steps, _signal_names(asked))
        wait_until_projected({"long": asked.steps - 1})
    return run_id


def wait_until_projected(steps: Mapping[str, int]) -> None:
    """Wait until each of some runs has reached a step."""
    while True:
        newest = newest_steps()
        if all(newest.get(name, -1) >= step for name, step in steps.items()):
            return
        time.sleep(0.5)


def _signal_names(asked: argparse.Namespace) -> tuple[str, ...]:
    """Return the signals of the long run."""
    return (*SIGNALS, *(f"own/s{index}" for index in range(asked.signals - len(SIGNALS))))


def newest_steps() -> dict[str, int]:
    """Return the newest step that the collector has projected, of each run that has one."""
    newest: dict[str, int] = {}
    cursor = ""
    while True:
        with urllib.request.urlopen(f"{URL}/api/v1/runs?limit=1000{cursor}") as answer:  # noqa: S310 - our own address
            page = json.load(answer)
        newest |= {run["name"]: run["last_step"] for run in page["items"] if run["last_step"] is not None}
        if not page["next"]:
            return newest
        cursor = f"&cursor={page['next']}"
