"""``python -m benchmarks``: every benchmark's table, one after the other; those that take long, on a small scale."""

import argparse
import tempfile
from collections.abc import Callable

from benchmarks import (
    cold_import,
    dashboard,
    detection,
    ingest,
    log_step,
    model_monitors,
    probe,
    sampling,
    series,
    spool,
)


def main() -> int:
    """Run the benchmarks named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"a benchmark: {', '.join(BENCHMARKS)} (default: all)")
    names = parser.parse_args().name
    if unknown := set(names) - set(BENCHMARKS):
        parser.error(f"a name must be one of {', '.join(BENCHMARKS)}, got {', '.join(sorted(unknown))}")
    return max(BENCHMARKS[name]() for name in names or BENCHMARKS)


def _dashboard() -> int:
    sizes = ["--runs=100", "--steps=5000", "--signals=20", "--rounds=1", "--pushes=5", "--live-steps=200"]
    with tempfile.TemporaryDirectory() as folder:
        return dashboard.main([*sizes, "--keep", folder])


BENCHMARKS: dict[str, Callable[[], int]] = {
    "cold_import": cold_import.main,
    "log_step": log_step.main,
    "spool": spool.main,
    "model_monitors": model_monitors.main,
    "probe": probe.main,
    "sampling": lambda: sampling.main([]),
    "ingest": lambda: ingest.main([]),
    "series": lambda: series.main([]),
    "dashboard": _dashboard,
    "detection": lambda: detection.main(["--runs", "5"]),
}

if __name__ == "__main__":
    raise SystemExit(main())
