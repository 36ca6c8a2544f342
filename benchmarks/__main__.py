"""``python -m benchmarks``: every benchmark's quick table, one after the other."""

import sys
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

BENCHMARKS: dict[str, Callable[[], int]] = {
    "cold_import": cold_import.main,
    "log_step": log_step.main,
    "spool": spool.main,
    "model_monitors": model_monitors.main,
    "probe": probe.main,
    "sampling": lambda: sampling.main([]),
    "ingest": lambda: ingest.main([]),
    "series": lambda: series.main([]),
    "dashboard": lambda: dashboard.main([]),
    "detection": lambda: detection.main(["--runs", "5"]),
}


def main() -> int:
    """Run the benchmarks named on the command line, or all."""
    names = sys.argv[1:] or list(BENCHMARKS)
    return max(BENCHMARKS[name]() for name in names)


if __name__ == "__main__":
    raise SystemExit(main())
