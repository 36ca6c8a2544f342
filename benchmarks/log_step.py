"""``python -m benchmarks.log_step``: how long `log_step` blocks the training thread, compared with a line of JSON.

The candidates of a table take turns in one run on one machine. Between two calls, pure Python holds the interpreter as
training would, so that the batch processor's thread has to compete for it. Read the ratios. The collector is a
transport that answers at once, because waiting on a socket takes no processor time.
"""

import json
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.overhead.between import hold_interpreter
from trainer_hooks import Monitor, Rollouts
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.signals import summarise
from trainer_hooks.wire import Receipt

RESPONSES, TOKENS = 64, 512
MANY_RESPONSES = 2560
# The budget is a tenth of the time of trackio and a fiftieth of the time of wandb. In the same measurement, a line of
# JSON took 0.63 of the time of trackio and 0.11 of that of wandb for 60 scalars, and 0.79 and 0.24 with 3 histograms
# of 2,560 values.
SCALARS_BUDGET = min(0.1 / 0.63, 0.02 / 0.11)
HISTOGRAMS_BUDGET = min(0.1 / 0.79, 0.02 / 0.24)
Candidates = dict[str, Callable[[int], object]]


class Answering:
    """A transport that accepts every batch at once."""

    def send(self, body: bytes) -> Receipt:
        """Accept a batch."""
        return Receipt(run_id="r", accepted=len(body))


def token_arrays() -> dict[str, Any]:
    """Make 64 × 512 tokens as a trainer has them after a step, float32."""
    generator = np.random.default_rng(0)
    logprobs = -generator.exponential(0.5, (RESPONSES, TOKENS)).astype(np.float32)
    return {
        "logprobs": logprobs,
        "old_logprobs": logprobs - np.float32(0.01),
        "entropies": generator.exponential(0.5, logprobs.shape).astype(np.float32),
        "mask": np.arange(TOKENS) % 64 < 48 * np.ones((RESPONSES, 1)),
        "rewards": generator.integers(0, 2, RESPONSES).astype(np.float32),
        "advantages": generator.normal(size=RESPONSES).astype(np.float32),
        "group_ids": np.arange(RESPONSES) // 8,
    }


def response_arrays() -> dict[str, Any]:
    """Make three float32 arrays with one number for each of 2,560 responses, as a trainer without tokens has them."""
    generator = np.random.default_rng(2)
    return {
        "logprobs": -generator.exponential(0.5, (MANY_RESPONSES, 1)).astype(np.float32),
        "entropies": generator.exponential(0.5, (MANY_RESPONSES, 1)).astype(np.float32),
        "rewards": generator.integers(0, 2, MANY_RESPONSES).astype(np.float32),
        "mask": np.ones((MANY_RESPONSES, 1), dtype=np.bool_),
    }


def measure(candidates: Candidates, *, steps: int, training_seconds: float) -> dict[str, np.ndarray]:
    """Measure the seconds of each call, with the candidates in turn."""
    measured: dict[str, list[float]] = {name: [] for name in candidates}
    for step in range(steps):
        for name, call in candidates.items():
            hold_interpreter(training_seconds)
            started = time.perf_counter()
            call(step)
            measured[name].append(time.perf_counter() - started)
    # The first calls pay for imports and warm caches.
    return {name: np.array(times[steps // 10 :]) for name, times in measured.items()}


def show(measured: dict[str, np.ndarray], budget: float) -> None:
    """Print a table of ratios to its first row."""
    base = next(iter(measured.values()))
    print(f"{'training thread blocked by':48} {'p50 µs':>8} {'p99 µs':>8} {'p50 ×':>7} {'p99 ×':>7}")
    for name, times in measured.items():
        p50, p99 = np.quantile(times, [0.5, 0.99])
        ratios = p50 / np.quantile(base, 0.5), p99 / np.quantile(base, 0.99)
        print(f"{name:48} {p50 * 1e6:8.0f} {p99 * 1e6:8.0f} {ratios[0]:7.2f} {ratios[1]:7.2f}")
    print(f"budget, a tenth of trackio and a fiftieth of wandb: {budget:.2f} ×\n")


def main() -> int:
    """Print a table for scalars alone, and one for tokens."""
    scalars = {f"group/metric{index}": index / 7 for index in range(60)}
    arrays, responses = token_arrays(), response_arrays()
    values = np.random.default_rng(1).normal(size=(3, 2560)).astype(np.float32)
    monitor = Monitor(ConnectionSettings(url="", project="p", run="r", attempt=1), Answering())
    monitor.start()
    with tempfile.TemporaryFile("w") as file:

        def line(step: int, **more: object) -> None:
            file.write(json.dumps({"step": step, "time": time.time()} | scalars | more) + "\n")
            file.flush()

        def histograms(step: int) -> None:
            line(step, histograms=[np.histogram(row, bins=64)[0].tolist() for row in values])

        plain: Candidates = {
            "a line of JSON, 60 scalars": line,
            "log_step, 60 scalars": lambda step: monitor.log_step(step, scalars),
        }
        with_tokens: Candidates = {
            "a line of JSON, 60 scalars, 3 × 2,560 binned": histograms,
            "log_step, 60 scalars, 2,560 responses": lambda step: monitor.log_step(step, scalars, responses),
            "(log_step, 60 scalars, 64 × 512 tokens)": lambda step: monitor.log_step(step, scalars, arrays),
            "(were the tokens reduced in line)": lambda _: summarise(Rollouts(**arrays)),
        }
        show(measure(plain, steps=2000, training_seconds=0.001), SCALARS_BUDGET)
        show(measure(with_tokens, steps=200, training_seconds=0.03), HISTOGRAMS_BUDGET)
    monitor.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
