"""Lists the openings of a detector's findings on a short series: for examples, tests and benchmarks."""

from collections.abc import Mapping, Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Observation

__all__ = ["episodes"]


def episodes(detector: StreamDetector, series: Mapping[str, Sequence[float]]) -> list[tuple[int, str, str]]:
    """Run a detector on equally long series and return the openings of its findings.

    Args:
        detector: A fresh detector.
        series: Values by signal, one for each row.

    Returns:
        Row (from 0), kind and severity of every finding that did not hold on the row before.
    """
    opened: list[tuple[int, str, str]] = []
    held: set[tuple[str, str]] = set()
    for row, values in enumerate(zip(*series.values(), strict=True)):
        signals = dict(zip(series, values, strict=True))
        found = [(f.kind, str(f.severity)) for f in detector.update(Observation(step=row, signals=signals))]
        opened += [(row, *name) for name in found if name not in held]
        held = set(found)
    return opened
