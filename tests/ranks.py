"""Starts the ranks of a script as processes of this machine, and waits for them."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def launch(
    script: Path,
    *arguments: str,
    world_size: int = 2,
    prefix: Sequence[str] = (),
    timeout: float = 240.0,
    **environ: str,
) -> None:
    """Run a script on several ranks, which find each other by torch's usual variables, to its end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
    shared = {"WORLD_SIZE": str(world_size), "LOCAL_WORLD_SIZE": str(world_size), "RLVITALS_ATTEMPT": "1"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    processes = [
        subprocess.Popen(
            [*prefix, sys.executable, str(script), *arguments],
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH": str(ROOT)} | environ,
        )
        for rank in range(world_size)
    ]
    deadline = time.monotonic() + timeout
    try:
        # One that fails leaves the others waiting for it.
        while not any(process.poll() for process in processes) and None in [process.poll() for process in processes]:
            assert time.monotonic() < deadline, f"the ranks did not end within {timeout:.0f} s"
            time.sleep(0.05)
        assert not any(process.poll() for process in processes), "a rank failed; its own words stand above"
    finally:
        for process in processes:
            process.kill()
            process.wait()
