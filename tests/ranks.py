"""Starts the ranks of a script as processes of this machine, and waits for them."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.ports import reserved_port
from tests.warm import WarmProcess, start

ROOT = Path(__file__).parents[1]
Process = WarmProcess | subprocess.Popen[bytes]


def launch(
    script: Path | str,
    *arguments: str,
    world_size: int = 2,
    timeout: float = 240.0,
    stdout: int | None = None,
    **environ: str,
) -> None:
    """Run a script, or a module, on several ranks, which find each other by torch's usual variables, to its end.

    Their output goes to the descriptor ``stdout``, by default to the output of the tests.
    """
    shared = {"WORLD_SIZE": str(world_size), "LOCAL_WORLD_SIZE": str(world_size), "RLVITALS_ATTEMPT": "1"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    with reserved_port() as port:
        shared["MASTER_PORT"] = str(port)
        environments = [
            os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | environ for rank in range(world_size)
        ]
        _wait([start([*_named(script), *arguments], env=env, stdout=stdout) for env in environments], timeout)


def _named(script: Path | str) -> list[str]:
    """Return the interpreter's arguments for a script, or for a module by its name."""
    return [str(script)] if isinstance(script, Path) else ["-m", script]


def _wait(processes: Sequence[Process], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    try:
        # A rank that fails leaves the others waiting for it.
        while not any(process.poll() for process in processes) and None in [process.poll() for process in processes]:
            assert time.monotonic() < deadline, f"the ranks did not end within {timeout:.0f} s"
            time.sleep(0.05)
        assert not any(process.poll() for process in processes), "a rank failed; its own output is above"
    finally:
        for process in processes:
            process.kill()
            process.wait()
