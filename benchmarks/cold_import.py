"""``python -m benchmarks.cold_import``: what `import trainer_hooks` takes, and what `connect` loads after it."""

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
# Processor time, because a busy machine doubles the clock's.
CODE = "import time; a = time.process_time(); import {}; print(time.process_time() - a)"


def seconds(names: str) -> float:
    """Give the seconds of processor time that an import takes in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", CODE.format(names)], capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
    return float(done.stdout)


def main() -> int:
    """Print the table; the runs of all imports are interleaved, so that all see the same machine."""
    taken: dict[str, list[float]] = {names: [] for names in IMPORTS}
    for _ in range(RUNS):
        for names in IMPORTS:
            taken[names].append(seconds(names))
    base = statistics.median(taken["numpy"])
    print(f"{'import':52} {'median ms':>10} {'best ms':>8} {'× numpy':>8}")
    for names, times in taken.items():
        median = statistics.median(times)
        print(f"{names:52} {median * 1e3:10.0f} {min(times) * 1e3:8.0f} {median / base:8.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
