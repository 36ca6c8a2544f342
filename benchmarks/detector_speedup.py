"""``python -m benchmarks.detector_speedup CHECKOUT``: the cost of a step here and in another checkout.

Both are measured in turns, each in a separate process. The shortest time of all turns counts for each row, so that
other work on the machine has little effect. The rows are those of `benchmarks.detector_cost`, where every signal is
sent, and of authored runs of suite A, which also collapse. A second measurement saves the state after every tenth row,
as a collector does after a slice. The time of saving does not count.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

__all__ = ["main"]

EVERY_SIGNAL = """
from benchmarks.detector_cost import measure
found = measure({rows})[0]
"""
# An older checkout may lack what this one has: it needs the generator of suite A and the engine, and nothing else.
SUITE_A = """
import time
from benchmarks.detection.authored.suite import benign_kinds, displacement_kinds, failure_kinds, make_run
from monitor_server.detection.engine import Engine
runs = [make_run(kind, 0) for kind in [*benign_kinds(), *displacement_kinds(), *failure_kinds()][::{every}]]
found = []
for run in runs:
    engine = Engine()
    for row, observation in enumerate(run.observations, start=1):
        begin = time.thread_time_ns()
        engine.update(observation)
        found.append((time.thread_time_ns() - begin) / 1000.0)
        if {saves} and row % 10 == 0:
            engine.state()
"""
WORKLOADS = {
    "every signal": (EVERY_SIGNAL, False),
    "suite A": (SUITE_A, False),
    "suite A, saved": (SUITE_A, True),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of both checkouts and their ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detector_speedup", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the other checkout, such as a git worktree of an earlier commit")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each checkout (default: 6)")
    parser.add_argument("--rows", type=int, default=1500, help="rows that hold every signal (default: 1500)")
    parser.add_argument("--every", type=int, default=6, help="of the kinds of suite A, one in so many (default: 6)")
    options = parser.parse_args(arguments)
    folders = {"other": options.checkout, "here": Path.cwd()}
    print(f"{'rows':14} {'':6} {'p50 µs':>8} {'p99 µs':>8}")
    for name, (code, saves) in WORKLOADS.items():
        shortest: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for place, folder in folders.items():
                durations = _measured(folder, code.format(rows=options.rows, every=options.every, saves=saves))
                shortest[place] = list(map(min, durations, shortest.get(place, durations)))
        quantiles = {place: np.quantile(values, (0.5, 0.99)) for place, values in shortest.items()}
        for place, found in quantiles.items():
            print(f"{name:14} {place:6} {found[0]:8.0f} {found[1]:8.0f}")
        ratios = [here / other for here, other in zip(quantiles["here"], quantiles["other"], strict=True)]
        print(f"{name:14} {'ratio':6} {ratios[0]:8.2f} {ratios[1]:8.2f}")
    return 0


def _measured(folder: Path, code: str) -> list[float]:
    """Return microseconds of each row in one checkout."""
    script = f"{code}\nimport json\nprint(json.dumps(found))"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)  # noqa: S603
    found: list[float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
