"""Turns the rows of a log into steps.

Rows of the same step are one step, the first value of a signal standing; a step that goes back starts a new attempt;
rows without a whole step are counted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from monitor_server.detection.protocol import Observation
from monitor_server.importers.protocol import RecordedRow, Row
from monitor_server.importers.signal_names import STEP_KEYS, number, signals_of

__all__ = ["Named", "observations", "observe"]

MAX_STEP = 1 << 53

# Returns a row's numbers under the names wanted; the second argument maps short names to the row's keys.
Named = Callable[[Mapping[str, object], Mapping[str, str] | None], dict[str, float]]


def observations(
    rows: Iterable[Row], fallback: Mapping[str, str] | None = None, named: Named = signals_of
) -> list[Observation]:
    """Return the steps of a run as observations, in the order logged."""
    return list(observe(rows, lambda row: named(row, fallback)))


def observe(rows: Iterable[Row], named: Callable[[Row], dict[str, float]]) -> Iterator[Observation]:
    """Yield the steps of a run as observations, in the order logged; only one step is held in memory."""
    held: Observation | None = None
    attempt = 1
    for place, row in enumerate(rows):
        signals = named(row)
        if isinstance(row, RecordedRow):
            yield _recorded(row, signals)
            continue
        step = _step(row, place)
        if held is not None and step == held.step:
            held = replace(held, signals=signals | dict(held.signals))
            continue
        if held is not None:
            yield held
            attempt += step < held.step
        held = Observation(step=step, attempt=attempt, signals=signals, time=number(row.get("_timestamp")))
    if held is not None:
        yield held


def _recorded(row: RecordedRow, signals: dict[str, float]) -> Observation:
    return Observation(
        step=row.step,
        attempt=row.attempt,
        signals=signals,
        time=row.time,
        data_version=row.data_version,
        acknowledged=row.acknowledged,
    )


def _step(row: Row, place: int) -> int:
    for key in STEP_KEYS:
        value = number(row.get(key))  # a printed dict holds texts
        if value is None:
            continue
        if abs(value) < MAX_STEP and value % 1 == 0:  # NaN and infinity are not below it
            return int(value)
    return place
