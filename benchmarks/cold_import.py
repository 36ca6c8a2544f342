"""``python -m benchmarks.cold_import``: the time of `import trainer_hooks` and of the imports of `connect`."""

import statistics
import subprocess
import sys

RUNS = 7
IMPORTS = (
    "numpy",
    "numpy, msgspec",
    "trainer_hooks",
    "trainer_hooks.wire",
    "trainer_hooks.connection, trainer_hooks.delivery.http",
)
# Processor time, because wall-clock time doubles on a busy machine.
CODE = "import time; a = time.process_time(); import {}; print(time.process_time() - a)"


def measure_seconds(names: str) -> float:
    """Measure the seconds of processor time of an import in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", CODE.format(names)], capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
    return float(done.stdout)


def main() -> int:
    """Print the table; the runs of all imports are interleaved, so that all run under the same load."""
    taken: dict[str, list[float]] = {names: [] for names in IMPORTS}
    for _ in range(RUNS):
        for names in IMPORTS:
            taken[names].append(measure_seconds(names))
    base = statistics.median(taken["numpy"])
    print(f"{'import':52} {'median ms':>10} {'best ms':>8} {'× numpy':>8}")
    for names, times in taken.items():
        median = statistics.median(times)
        print(f"{names:52} {median * 1e3:10.0f} {min(times) * 1e3:8.0f} {median / base:8.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
