"""Starts one process a tool, in turns, and collects the measurements.

Each process runs in a network namespace with loopback alone, where this machine allows that, so that offline tools are
offline. One row of rlvitals sends to a real collector on this machine.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.collectors import ROOT, collector
from benchmarks.overhead.between import Between
from benchmarks.overhead.loggers import LOGGERS, WITHOUT_COPY
from benchmarks.overhead.worker import Measured

__all__ = ["Result", "race", "take_turn"]

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "WANDB_ERROR_REPORTING": "false",
}
ISOLATED = ("unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


@dataclass(frozen=True, slots=True)
class Result:
    """All rounds of one tool: blocking seconds at the median and the 99th percentile, CPU and bytes a step."""

    p50: float
    p99: float
    cpu_seconds: float
    step_bytes: float


def race(python: Path, *, has_arrays: bool, steps: int, rounds: int, between: Between = "python") -> dict[str, Result]:
    """Let every tool log the same steps, in turns, and return the result of each.

    Args:
        python: Interpreter of an environment with ``requirements/overhead.txt`` installed.
        has_arrays: Whether a step has arrays beside its scalars.
        steps: Steps a round.
        rounds: The number of turns of each tool.
        between: The work of a training between two steps.

    Raises:
        RuntimeError: If a tool fails; its own message is on standard error.
    """
    tools = [tool for tool in LOGGERS if has_arrays or tool != WITHOUT_COPY]
    found: dict[str, list[Measured]] = {tool: [] for tool in tools}
    for number in range(rounds):
        for tool, measured in found.items():
            sys.stderr.write(f"round {number + 1} of {rounds}: {tool}\n")
            measured.append(take_turn(python, tool, has_arrays=has_arrays, steps=steps, between=between))
    return {tool: _result(measured) for tool, measured in found.items()}


def _result(measured: Sequence[Measured]) -> Result:
    held = np.concatenate([turn.held for turn in measured])
    return Result(
        p50=float(np.quantile(held, 0.5)),
        p99=float(np.quantile(held, 0.99)),
        cpu_seconds=float(np.median([turn.cpu_seconds for turn in measured])),
        step_bytes=float(np.median([turn.step_bytes for turn in measured])),
    )


def take_turn(python: Path, tool: str, *, has_arrays: bool, steps: int, between: Between = "python") -> Measured:
    """Let one tool log its steps in its own process."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        wants_collector = tool == "rlvitals, to a collector"
        database = Path(folder) / "rlvitals.db"
        environ = {"RLVITALS_URL": stack.enter_context(collector(database))[0]} if wants_collector else {}
        asked = tool, "arrays" if has_arrays else "scalars", between, str(steps)
        command = [str(python), "-m", "benchmarks.overhead.worker", *asked]
        done = subprocess.run(  # noqa: S603 - our own worker, in the environment that the user named
            [*(() if environ else _isolation()), *command, str(_new_folder(Path(folder) / "tool"))],
            env=os.environ | OFFLINE | {"PYTHONPATH": str(ROOT), "HOME": folder} | environ,
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{tool} ended with {done.returncode}; see its message above")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Measured)


def _new_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _isolation() -> Sequence[str]:
    can = all(shutil.which(tool) for tool in ("unshare", "ip"))
    return ISOLATED if can and subprocess.run([*ISOLATED, "true"], check=False).returncode == 0 else ()  # noqa: S603
