"""`rlvitals demo`: run the collector and the reference trainer side by side until Ctrl-C.

Both run as separate processes, as in practice. The command explains what to look for, and ends both cleanly. Its report
comes from the HTTP API. It does no detection and no training.
"""

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor_server.commands.client import fetch_json
from monitor_server.commands.errors import CommandError, require_libraries
from monitor_server.commands.processes import (
    collector_arguments,
    environment_without_settings,
    interrupt_on_signals,
    python_process,
    wait_until_ready,
)
from monitor_server.commands.terminal import printable, say
from trainer_hooks.wire import run_id

__all__ = ["run"]

PROJECT = "demo"
RUN_NAME = "grpo"
POLL_SECONDS = 0.5

WELCOME = """
  rlvitals demo: a small language model learns to search and answer by GRPO, and its training dies.

    dashboard   {url}
    this run    {url}/runs/{run_id}

  What to look for: the reward rises first. Then watch the entropy and the likelihood panels: they move while the
  reward still looks well. A warning comes first, then a page; the reward curve falls last.
  Ctrl-C ends everything.
"""


def run(
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the collector and its dashboard.")] = 8600,
    directory: Annotated[Path, typer.Option(help="Folder for the database and the checkpoints.")] = Path(".demo"),
    preset: Annotated[str, typer.Option(help="Settings of the reference trainer.")] = "demo",
    steps: Annotated[int | None, typer.Option(help="Stop the trainer after this many steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run.")] = None,
    leave: Annotated[bool, typer.Option("--exit", help="End when the trainer has ended.")] = False,
) -> int:
    """Run the demo; the exit status is the trainer's, and 0 when ended by Ctrl-C."""
    require_libraries("demo", "sqlalchemy", "dash", "torch", extras="server,dashboard,trainer")
    interrupt_on_signals()
    _require_port_and_folder(port, directory)
    url = f"http://127.0.0.1:{port}"
    database = f"sqlite:///{(directory / 'rlvitals.db').resolve()}"
    try:
        environment = environment_without_settings()  # it must notify nobody
        with python_process(collector_arguments(port, database), environment) as collector:
            if not wait_until_ready(url, collector):
                return collector.poll() or 1
            name = time.strftime(f"{RUN_NAME}-%m%d-%H%M%S")
            say(WELCOME.format(url=url, run_id=run_id(PROJECT, name)))
            options = {"preset": preset, "steps": steps, "seed": seed, "cache": directory}
            with python_process(_trainer_command(url, name, options), environment) as trainer:
                alerts = _print_alerts(url, run_id(PROJECT, name), while_running=(trainer, collector))
            if collector.poll() is not None:
                say(f"the collector ended with exit code {collector.returncode}; its last lines are printed above")
                return 1
            say(_summary(alerts, exit_code=trainer.returncode))
            if not leave:
                say(f"The dashboard stays at {url} until Ctrl-C.")
                collector.wait()
            return trainer.returncode
    except KeyboardInterrupt:
        say(f"\nended; the recorded runs are kept in {directory}")
        return 0


def _require_port_and_folder(port: int, directory: Path) -> None:
    """Make the folder; refuse a port in use, because what listens there may answer as a collector does."""
    from monitor_server.http_server.server import bind  # noqa: PLC0415 - importing uvicorn is slow

    bind("127.0.0.1", port, choice="--port").close()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--directory must name a folder that can be written: {error}") from error


def _trainer_command(url: str, name: str, options: Mapping[str, object]) -> list[str]:
    # The words of the built-in environment are invented, so --texts sends no private data.
    command = ["-m", "trainer_hooks.reference", "--url", url, "--project", PROJECT, "--run", name, "--texts"]
    for option, value in options.items():
        command += [] if value is None else [f"--{option}", str(value)]
    return command


def _print_alerts(url: str, run: str, *, while_running: tuple[subprocess.Popen[bytes], ...]) -> list[dict[str, Any]]:
    """Print each alert as it opens, while all processes live; return all alerts in the order they opened."""
    printed: dict[str, dict[str, Any]] = {}
    running = True
    while running:
        time.sleep(POLL_SECONDS)
        running = all(process.poll() is None for process in while_running)
        for alert in _alerts(url, run):
            if printed.get(alert["id"], {}).get("severity") != alert["severity"]:
                printed[alert["id"]] = alert
                say(f"  >> {alert['severity'].upper()} at step {alert['severity_step']}: {printable(alert['summary'])}")
    return sorted(printed.values(), key=lambda alert: int(alert["severity_step"]))


def _alerts(url: str, run: str) -> list[dict[str, Any]]:
    try:
        return list(fetch_json("GET", url, f"/runs/{run}/alerts", timeout=5.0)["items"])
    except CommandError:  # the run has sent nothing yet, or the collector is gone, which is reported elsewhere
        return []


def _summary(alerts: list[dict[str, Any]], *, exit_code: int) -> str:
    if exit_code != 0:
        return f"\nThe trainer ended with exit code {exit_code}; its last lines are printed above."
    if not alerts:
        return "\nThe run ended without an alert."
    lines = [
        f"    step {alert['severity_step']:>5}  {alert['severity']:<9} {printable(alert['kind'])}" for alert in alerts
    ]
    return "\n".join(["", "The run has ended. Its alerts, by step:", *lines])
