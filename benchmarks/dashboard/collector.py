"""A collector with its dashboard, and the runs that are sent to it."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["PORT", "SIGNALS", "URL", "collector", "feed", "feed_long", "newest_step", "wait_until_served"]

PORT = 8699
URL = f"http://127.0.0.1:{PORT}"
SIGNALS = ("likelihood/correct", "likelihood/incorrect", "reward/mean", "grad/norm", "entropy/mean", "ratio/max")


@contextmanager
def collector() -> Iterator[int]:
    """Run a collector with its dashboard on an empty store; give its process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"RLVITALS_DATABASE_URL": f"sqlite:///{folder}/bench.db", "RLVITALS_PORT": str(PORT)}
        server = subprocess.Popen([sys.executable, "-m", "monitor_server", "serve"], env=environment)
        try:
            wait_until_served(f"{URL}/readyz")
            yield server.pid
        finally:
            server.terminate()
            server.wait()


def wait_until_served(url: str) -> None:
    """Wait until an address answers, for a minute at most."""
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url).close()  # noqa: S310 - our own address
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


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
    if newest_step("long") < asked.steps - 1:
        feed("long", 1, asked.steps, _signal_names(asked))
        while newest_step("long") < asked.steps - 1:
            time.sleep(0.5)
    return run_id


def _signal_names(asked: argparse.Namespace) -> tuple[str, ...]:
    """Return the signals of the long run."""
    return (*SIGNALS, *(f"own/s{index}" for index in range(asked.signals - len(SIGNALS))))


def newest_step(name: str) -> int:
    """Return the newest step of a run that the collector has projected; -1 before the first."""
    with urllib.request.urlopen(f"{URL}/api/v1/runs?limit=1000") as answer:  # noqa: S310 - our own address
        steps = [run["last_step"] for run in json.load(answer)["items"] if run["name"] == name]
    return -1 if not steps or steps[0] is None else int(steps[0])
