"""`rlvitals demo`: the collector and the reference trainer side by side, from nothing, until Ctrl-C.

Runs the two as the separate processes they are in real life, tells what to look for, and ends both cleanly. It reads
what it reports from the HTTP API; it knows nothing of detection or training.
"""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

from monitor_server.commands.client import CommandError, ask
from trainer_hooks.wire import run_id

__all__ = ["add_arguments", "run"]

PROJECT = "demo"
RUN_NAME = "grpo"
POLL_SECONDS = 0.5
START_SECONDS = 60.0
STOP_SECONDS = 10.0

WELCOME = """
  rlvitals demo: a small language model learns to search and answer by GRPO, and its training dies.

    dashboard   {url}
    this run    {url}/runs/{run_id}

  What to look for: the reward rises first. Then watch the entropy and the likelihood panels: they move while the
  reward still looks well. A warning comes first, then a page; the reward curve is the last to know.
  Ctrl-C ends everything.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rlvitals demo`."""
    parser.add_argument("--port", type=int, default=8600, help="port of collector and dashboard (8600)")
    parser.add_argument("--directory", type=Path, default=Path(".demo"), help="where database and checkpoints go")
    parser.add_argument("--preset", default="demo", help="settings of the reference trainer (demo)")
    parser.add_argument("--steps", type=int, default=None, help="stop the trainer after this many steps")
    parser.add_argument("--seed", type=int, default=None, help="seed of the run")
    parser.add_argument("--exit", action="store_true", help="end when the trainer has ended")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo and give the exit code: 0 also when ended by Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    url = f"http://127.0.0.1:{arguments.port}"
    database = f"sqlite:///{(arguments.directory / 'rlvitals.db').resolve()}"
    serve = ["-m", "monitor_server", "serve", "--port", str(arguments.port), "--database", database]
    try:
        with _process(serve) as collector:
            if not _wait_until_ready(url, collector):
                return collector.poll() or 1
            name = time.strftime(f"{RUN_NAME}-%m%d-%H%M%S")
            _say(WELCOME.format(url=url, run_id=run_id(PROJECT, name)))
            with _process(_trainer_command(arguments, url, name)) as trainer:
                alerts = _tell_alerts(url, run_id(PROJECT, name), while_running=(trainer, collector))
            if collector.poll() is not None:
                _say(f"the collector ended with exit code {collector.returncode}; its last lines stand above")
                return 1
            _say(_summary(alerts, exit_code=trainer.returncode))
            if not arguments.exit:
                _say(f"The dashboard stays at {url} until Ctrl-C.")
                collector.wait()
            return trainer.returncode
    except KeyboardInterrupt:
        _say(f"\nended; the recorded runs are kept in {arguments.directory}")
        return 0


def _trainer_command(arguments: argparse.Namespace, url: str, name: str) -> list[str]:
    command = [
        "-m",
        "trainer_hooks.reference",
        "--preset",
        arguments.preset,
        "--url",
        url,
        "--project",
        PROJECT,
        "--run",
        name,
    ]
    # The built-in world's words are made up: nothing of anybody's leaves the trainer with them.
    command += ["--cache", str(arguments.directory), "--texts"]
    for option in ("steps", "seed"):
        value = getattr(arguments, option)
        command += [] if value is None else [f"--{option}", str(value)]
    return command


@contextmanager
def _process(arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a Python process and end it with the block, politely first.

    Its own session keeps the terminal's Ctrl-C from reaching it before we end it in our order.
    """
    process = subprocess.Popen([sys.executable, *arguments], start_new_session=True)  # noqa: S603 - our own modules
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(url: str, collector: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while collector.poll() is None and time.monotonic() < deadline:
        try:
            if urllib3.request("GET", f"{url}/readyz", timeout=2.0, retries=False).status == 200:  # noqa: PLR2004
                return True
        except urllib3.exceptions.HTTPError:
            pass
        time.sleep(0.2)
    return False


def _tell_alerts(url: str, run: str, *, while_running: tuple[subprocess.Popen[bytes], ...]) -> list[dict[str, Any]]:
    """Print each alert as it opens, while all processes live, and give all of them in the order they opened."""
    told: dict[str, dict[str, Any]] = {}
    running = True
    while running:
        time.sleep(POLL_SECONDS)
        running = all(process.poll() is None for process in while_running)
        for alert in _alerts(url, run):
            if told.get(alert["id"], {}).get("severity") != alert["severity"]:
                told[alert["id"]] = alert
                _say(f"  >> {alert['severity'].upper()} at step {alert['severity_step']}: {alert['summary']}")
    return sorted(told.values(), key=lambda alert: int(alert["severity_step"]))


def _alerts(url: str, run: str) -> list[dict[str, Any]]:
    try:
        return list(ask("GET", url, f"/runs/{run}/alerts", timeout=5.0)["items"])
    except CommandError:  # the run has not been heard of yet, or the collector is gone, which is told elsewhere
        return []


def _summary(alerts: list[dict[str, Any]], *, exit_code: int) -> str:
    if exit_code != 0:
        return f"\nThe trainer ended with exit code {exit_code}; its last lines stand above."
    if not alerts:
        return "\nThe run ended without an alert."
    lines = [f"    step {alert['severity_step']:>5}  {alert['severity']:<9} {alert['kind']}" for alert in alerts]
    return "\n".join(["", "The run has ended. What was said, and when:", *lines])


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the terminal is its page
