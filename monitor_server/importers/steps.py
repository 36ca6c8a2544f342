"""Turns the rows of a log into steps.

Rows of the same step are one step, and the first value of each signal counts. A step that goes back starts a new
attempt, and so does a higher whole number under the key ``attempt``. Steps that begin again in each epoch are counted
on, see `stepping.epochs`. In a log with steps, a row without one belongs to the step before. Other rows without a
whole step are numbered, and their numbers never go back. A row with a step below 0 is left out, as the SDK drops it.
Rows of an evaluation, and of other ranks beside rank 0, are left out. The report of the log names the rows that this
changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import isfinite, isnan

from monitor_server.detection.protocol import Observation
from monitor_server.importers.protocol import ReadReport, RecordedRow, Row
from monitor_server.importers.signal_names import SHARES, number, signals_of
from monitor_server.importers.stepping.epochs import counted_on
from monitor_server.importers.stepping.own_steps import MAX_STEP, LoggedRow, with_steps

__all__ = ["MAX_STEP", "observations", "observe"]

# Keys under which a row names what it was measured on, and the values of evaluations.
SPLITS = ("split", "mode", "phase")
EVALUATIONS = frozenset(("eval", "evaluation", "val", "valid", "validation", "test", "dev"))


def observations(rows: Iterable[Row], fallback: Mapping[str, str] | None = None) -> list[Observation]:
    """Return the steps of a run as observations, in the order of the log."""
    return list(observe(rows, lambda row: signals_of(row, fallback)))


def observe(
    rows: Iterable[Row], named: Callable[[Row], dict[str, float]], report: ReadReport | None = None
) -> Iterator[Observation]:
    """Yield the steps of a run as observations, in the order of the log; only one step is in memory at a time.

    Args:
        rows: The rows of the log.
        named: Returns a row's numbers by signal.
        report: Receives the rows that are not steps of their own, or whose step is changed.
    """
    report = report or ReadReport()
    held: Observation | None = None
    attempt, stepped, first, is_named = 1, 0, 0, False
    given: list[float] = []  # the steps of the row before
    for row, has_risen in counted_on(with_steps(_of_training(rows, report), named), report):
        if isinstance(row.logged, RecordedRow):
            yield _observation_of(row.logged, row.signals)
            continue
        is_named = is_named or has_risen
        if row.given and max(row.given) < 0.0:
            report.add_negative(row.place + 1, row.given[0])
            continue
        _note_shares(row.signals, row.place, report)
        is_part = row.is_counted or stepped > 1 or (stepped and held and row.signals.keys().isdisjoint(held.signals))
        if held and not row.given and is_part:
            # A part of the step that was logged by itself, or a summary or an evaluation between the steps.
            held = _joined(held, row, report)
            continue
        stepped += bool(row.given)
        step = _step(row, held, report)
        report.step_rows += 1
        is_back = held is not None and step < held.step
        report.steps_back += is_back
        report.goes_on_elsewhere += is_back and any(now > then for now, then in zip(row.given, given, strict=False))
        given = row.given
        first = step if held is None else first
        report.restarts += is_back and step <= first
        begins, is_named = held is not None and (is_back or is_named), False
        if held is not None and step == held.step and not begins:
            held = _joined(held, row, report)
            continue
        if held is not None:
            yield held
            attempt += begins
        time = number(row.logged.get("_timestamp"))
        held = Observation(step=step, attempt=attempt, signals=row.signals, time=time)
    if held is not None:
        yield held


def _of_training(rows: Iterable[Row], report: ReadReport) -> Iterator[tuple[int, Row]]:
    """Yield the rows with their places, without those of an evaluation or, beside rank 0, of another rank."""
    has_rank_0 = False
    for place, row in enumerate(rows):
        if not isinstance(row, RecordedRow):
            rank = number(row.get("rank"))
            has_rank_0 = has_rank_0 or rank == 0.0
            is_of_other_rank = has_rank_0 and rank is not None and rank > 0.0 and rank % 1 == 0
            if is_of_other_rank or any(str(row[key]).strip().lower() in EVALUATIONS for key in SPLITS if key in row):
                report.add_foreign(place + 1)
                continue
        yield place, row


def _observation_of(row: RecordedRow, signals: dict[str, float]) -> Observation:
    return Observation(
        step=row.step,
        attempt=row.attempt,
        signals=signals,
        time=row.time,
        data_version=row.data_version,
        acknowledged=row.acknowledged,
    )


def _joined(held: Observation, row: LoggedRow, report: ReadReport) -> Observation:
    """Return a step with the signals of another of its rows; NaN is equal to NaN here."""
    pairs = ((row.signals[name], held.signals[name]) for name in row.signals.keys() & held.signals.keys())
    if any(one != other and not (isnan(one) and isnan(other)) for one, other in pairs):
        report.add_repeated(row.place + 1, held.step)
    return replace(held, signals=row.signals | dict(held.signals))


def _note_shares(signals: Mapping[str, float], place: int, report: ReadReport) -> None:
    for name, value in signals.items():
        if name in SHARES and not 0.0 <= value <= 1.0 and isfinite(value):
            report.add_impossible_share(place + 1, name, value)


def _step(row: LoggedRow, held: Observation | None, report: ReadReport) -> int:
    """Return a row's step, or a number for the row that does not go back."""
    if row.step is not None:
        return row.step
    if row.given:
        report.add_numbered(row.place + 1, row.given[0])
    return row.place if held is None else min(MAX_STEP, max(row.place, held.step + 1))
