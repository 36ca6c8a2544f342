"""``python -m benchmarks.detector_cost``: the cost of all detectors for a step, and whether it grows with the steps.

Every signal that any detector reads is sent at every step; the time is processor time of this thread, so that other
work on the machine does not count.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence

import numpy as np

from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation
from monitor_server.detection.registry import DETECTORS

__all__ = ["main", "measure"]

BUDGET_MICROSECONDS = 1000.0
SETTLED = 100  # rows after which all windows are full
LEVELS = {
    "likelihood/correct": -0.4,
    "likelihood/incorrect": -0.4,
    "entropy/paired_delta": 0.0,
    "displacement/self": 0.0,
}
SIGNALS = sorted({name for detector in DETECTORS.values() for name in detector.reads})


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit code is 1 where the 99th percentile is over the budget."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detector_cost", description=__doc__)
    parser.add_argument("--steps", type=int, default=4000, help="steps of the run (4000; 100000 shows that it is flat)")
    steps = parser.parse_args(arguments).steps
    durations, first_state, last_state = measure(steps)
    tenth = max(1, len(durations) // 10)
    rows = [("first tenth", durations[:tenth]), ("last tenth", durations[-tenth:]), ("all", durations)]
    print(
        f"{len(DETECTORS)} detectors, {len(SIGNALS)} signals, {steps} steps; budget {BUDGET_MICROSECONDS:.0f} µs a step"
    )
    print(f"{'':12} {'p50 µs':>8} {'p99 µs':>8} {'p99 / budget':>13}")
    for name, values in rows:
        low, high = np.quantile(values, 0.5), np.quantile(values, 0.99)
        print(f"{name:12} {low:8.0f} {high:8.0f} {high / BUDGET_MICROSECONDS:13.2f}")
    print(f"state, JSON: {first_state} bytes at row {SETTLED}, {last_state} at the end")
    return int(np.quantile(durations, 0.99) > BUDGET_MICROSECONDS)


def measure(steps: int) -> tuple[list[float], int, int]:
    """Return microseconds of each step once settled, and the length of the state then and at the end, in bytes."""
    noise, engine = random.Random(0), Engine()  # noqa: S311 - synthetic telemetry
    durations, early = [], 0
    for step in range(max(steps, SETTLED + 10)):
        signals = {name: LEVELS.get(name, 0.5) + 0.01 * noise.gauss(0.0, 1.0) for name in SIGNALS}
        observation = Observation(step=step, signals=signals)
        begin = time.thread_time_ns()
        engine.update(observation)
        durations.append((time.thread_time_ns() - begin) / 1000.0)
        if step == SETTLED:
            early = len(json.dumps(engine.state()))
    return durations[SETTLED:], early, len(json.dumps(engine.state()))


if __name__ == "__main__":
    sys.exit(main())
