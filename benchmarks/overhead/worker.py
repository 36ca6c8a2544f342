"""``python -m benchmarks.overhead.worker TOOL ARRAYS BETWEEN STEPS FOLDER``: one tool, one payload, one process.

Prints one line of JSON.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import psutil

from benchmarks.overhead.between import BETWEEN, Between
from benchmarks.overhead.loggers import LOGGERS, RESPONSES, Payload

__all__ = ["SCALARS", "Measured"]

SCALARS = 60
WARM_UP_STEPS = 20
LOADED_BYTES = 16 << 20


class Measured(msgspec.Struct):
    """The measurement of one process: blocking seconds of each step; processor seconds and bytes a step."""

    held: list[float]
    cpu_seconds: float
    step_bytes: float


def payload(step: int, *, has_arrays: bool) -> Payload:
    """Return a step's numbers, different at every step."""
    generator = np.random.default_rng(step)
    scalars = {f"group{index % 6}/metric{index}": float(value) for index, value in enumerate(generator.random(SCALARS))}
    if not has_arrays:
        return scalars, {}
    # Responses of one token, in the shape in which trainers have tokens.
    logprobs = -generator.exponential(0.5, (RESPONSES, 1)).astype(np.float32)
    arrays = {
        "logprobs": logprobs,
        "old_logprobs": (logprobs - np.float32(0.01)),
        "rewards": generator.random(RESPONSES).astype(np.float32),
    }
    return scalars, arrays


def cpu() -> float:
    """Return the processor seconds of all threads of this process and of every process it has started."""
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        living += times.user + times.system
    return time.process_time() + reaped.ru_utime + reaped.ru_stime + living


def size(folder: Path) -> int:
    """Return the bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(tool: str, *, has_arrays: bool, between: Between, steps: int, folder: Path) -> Measured:
    """Log steps with a tool."""
    logger, train = LOGGERS[tool](folder), BETWEEN[between]()
    # A training has loaded a model by now. Once a large block has been freed, glibc keeps freed memory for later use;
    # before that it returns memory to the kernel, which provides the same pages again in the middle of a copy.
    bytes(LOADED_BYTES)
    for step in range(WARM_UP_STEPS):
        train()
        logger.log(step, *payload(step, has_arrays=has_arrays))
    time.sleep(2)  # until the work of the warm-up is finished, also where it is sent from disk
    before_bytes, before_cpu = size(folder) + logger.sent_bytes(), cpu()
    held, own_cpu = [], 0.0
    for step in range(WARM_UP_STEPS, WARM_UP_STEPS + steps):
        began = time.thread_time()
        train()
        numbers = payload(step, has_arrays=has_arrays)  # as trainers do, at the end of the step
        own_cpu += time.thread_time() - began
        started = time.perf_counter()
        logger.log(step, *numbers)
        held.append(time.perf_counter() - started)
    logger.finish()
    return Measured(
        held=held,
        cpu_seconds=(cpu() - before_cpu - own_cpu) / steps,
        step_bytes=(size(folder) + logger.sent_bytes() - before_bytes) / steps,
    )


def main() -> int:
    """Measure, and print the result."""
    tool, arrays, between, steps, folder = sys.argv[1:]
    found = measure(
        tool,
        has_arrays=arrays == "arrays",
        between=cast("Between", between),
        steps=int(steps),
        folder=Path(folder),
    )
    # Tools print to standard output, too: the last line is the result.
    print("\n" + json.dumps(msgspec.to_builtins(found)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
