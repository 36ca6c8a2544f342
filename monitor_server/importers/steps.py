"""Turns the rows of a log into steps.

Rows of the same step are one step, and the first value of each signal counts. A step that goes back starts a new
attempt, and so does a higher whole number under the key ``attempt``. Steps that begin again in each epoch are counted
on. In a log with steps, a row without one belongs to the step before, unless it repeats one of its signals; a row with
W&B's count alone belongs to it even then. Other rows without a whole step are numbered, and their numbers never go
back. A row with a step below 0 is left out, as the SDK drops it. Rows of an evaluation, and of other ranks beside rank
0, are left out. The report of the log names the rows that this changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite, isnan

from monitor_server.detection.protocol import Observation
from monitor_server.importers.protocol import ReadReport, RecordedRow, Row
from monitor_server.importers.signal_names import (
    CALLS,
    SHARES,
    SIGNALS,
    number,
    other_step_keys,
    outer_keys,
    read_row,
    step_keys,
    ungrouped,
)

__all__ = ["MAX_STEP", "observations", "observe"]

MAX_STEP = 1 << 53
MAX_EARLY = 100  # rows
# Keys under which a row names what it was measured on, and the values of evaluations.
SPLITS = ("split", "mode", "phase")
EVALUATIONS = frozenset(("eval", "evaluation", "val", "valid", "validation", "test", "dev"))


def observations(rows: Iterable[Row], fallback: Mapping[str, str] | None = None) -> list[Observation]:
    """Return the steps of a run as observations, in the order of the log."""
    return list(observe(rows, lambda row: read_row(row, fallback)))


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
    attempt, logged, is_stepped = 1, -inf, False
    first, epochs = 0, _Epochs()
    for place, row, signals, given, is_counted in _with_steps(_of_training(rows, report), named):
        if isinstance(row, RecordedRow):
            yield _observation_of(row, signals)
            continue
        if given and max(given) < 0.0:
            report.add_negative(place + 1, given[0])
            continue
        _note_shares(signals, place, report)
        if is_stepped and not given and held and (is_counted or signals.keys().isdisjoint(held.signals)):
            # A part of the step that was logged by itself, or a configuration or an evaluation between the steps.
            if _contradicts(signals, held.signals):
                report.add_repeated(place + 1, held.step)
            held = replace(held, signals=signals | dict(held.signals))
            continue
        is_stepped = is_stepped or bool(given)
        before, logged = logged, max(logged, _logged_attempt(row))
        is_named = -inf < before < logged
        epochs = _Epochs() if is_named else epochs
        step = epochs.count_on(_step(given, epochs.offset, place, held, report), row, place, held, report)
        report.step_rows += 1
        report.steps_back += held is not None and step < held.step
        first = step if held is None else first
        report.restarts += held is not None and step < held.step and step <= first
        begins = held is not None and (step < held.step or is_named)
        if held is not None and step == held.step and not begins:
            if _contradicts(signals, held.signals):
                report.add_repeated(place + 1, step)
            held = replace(held, signals=signals | dict(held.signals))
            continue
        if held is not None:
            yield held
            attempt += begins
        held = Observation(step=step, attempt=attempt, signals=signals, time=number(row.get("_timestamp")))
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


def _with_steps(
    rows: Iterable[tuple[int, Row]], named: Callable[[Row], dict[str, float]]
) -> Iterator[tuple[int, Row, dict[str, float], list[float], bool]]:
    """Yield rows with their places, signals, steps, and whether they have W&B's count alone beside a trainer's steps.

    The trainer's own steps and W&B's count are not comparable. The first own step decides: the count remains the step
    of the whole log if rows with signals were counted up to that step or beyond it.
    """
    has_own, has_named, counted = None, False, -inf
    early: list[tuple[int, Row, dict[str, float], list[float]]] = []  # logged before the training, without a signal
    for place, row in rows:
        signals, own, count = named(row), list[float](), list[float]()
        if not isinstance(row, RecordedRow):
            keys = step_keys(tuple(row))
            has_named = has_named or bool(keys)
            for key in keys if has_named else other_step_keys(tuple(row)):
                if (step := _number_of_step(row.get(key))) is not None:
                    (count if key == CALLS else own).append(step)
        if has_own is None and own and max(own) >= 0.0:
            has_own = max(own) > counted
            early = [(*each[:3], own) for each in early]
        elif (
            counted == -inf and not own and (count or early) and len(early) < MAX_EARLY and SIGNALS.isdisjoint(signals)
        ):
            early.append((place, row, signals, count))
            continue
        yield from ((*each, False) for each in early)
        early.clear()
        given = own if has_own or (own and has_own is None) else count
        counted = max([counted, *given])
        yield place, row, signals, given, bool(has_own and count and not own)
    yield from ((*each, False) for each in early)


def _number_of_step(value: object) -> float | None:
    """Return the number of a step, also of a text with commas between its thousands."""
    return number(ungrouped(value.strip()) if isinstance(value, str) else value)


def _observation_of(row: RecordedRow, signals: dict[str, float]) -> Observation:
    return Observation(
        step=row.step,
        attempt=row.attempt,
        signals=signals,
        time=row.time,
        data_version=row.data_version,
        acknowledged=row.acknowledged,
    )


def _contradicts(signals: Mapping[str, float], others: Mapping[str, float]) -> bool:
    """Whether a signal has two values; NaN is equal to NaN here."""
    pairs = ((signals[name], others[name]) for name in signals.keys() & others.keys())
    return any(one != other and not (isnan(one) and isnan(other)) for one, other in pairs)


def _note_shares(signals: Mapping[str, float], place: int, report: ReadReport) -> None:
    for name, value in signals.items():
        if name in SHARES and not 0.0 <= value <= 1.0 and isfinite(value):
            report.add_impossible_share(place + 1, name, value)


def _step(given: Sequence[float], offset: int, place: int, held: Observation | None, report: ReadReport) -> int:
    """Return the first usable of a row's own steps with the offset, or a number for the row that does not go back."""
    for step in given:
        if 0.0 <= step < MAX_STEP - offset and step % 1 == 0:  # NaN and infinity fail this comparison
            return int(step) + offset
    if given:
        report.add_numbered(place + 1, given[0])
    return place if held is None else min(MAX_STEP, max(place, held.step + 1))


class _Epochs:
    """Counts on the steps of a run that begin again in each epoch.

    They begin at the lowest step of the log or below, or the run was resumed. A count that also rises while the steps
    go on is no epoch of theirs: the trainer's steps count through all epochs, or each of them has a count.
    """

    def __init__(self) -> None:
        self.offset = 0  # what is added to the steps of this epoch
        self._lowest = MAX_STEP  # of the log's own steps
        self._passed: set[str] = set()  # the keys of counts that rose while the steps went on
        self._counts: dict[str, float] = {}

    def count_on(self, step: int, row: Row, place: int, held: Observation | None, report: ReadReport) -> int:
        """Return a step, counted on from the held one if it goes back because an epoch begins."""
        before = self._counts
        own = {key: number(row[key]) for key in outer_keys(tuple(row))}
        self._counts = before | {key: count for key, count in own.items() if count is not None}
        risen = _rising(before, self._counts)
        is_lowest = step - self.offset <= self._lowest
        self._lowest = min(self._lowest, step - self.offset)
        if held is None or step > held.step:
            self._passed |= risen
            return step
        if step < held.step and is_lowest and risen - self._passed:
            report.add_epoch(place + 1)
            begun = min(MAX_STEP, held.step + 1)
            self.offset += begun - step
            return begun
        report.epochs_back += step < held.step and any(key.lower().endswith("epoch") for key in risen)
        epoch = next(iter(self._counts), None)
        if epoch in before and self._counts[epoch] < before[epoch]:  # an earlier one, perhaps the first
            step, self.offset = step - self.offset, 0
        return step


def _rising(before: Mapping[str, float], after: Mapping[str, float]) -> set[str]:
    """Return the keys of whole numbers that went up; parts of an epoch are written beside steps through all epochs."""
    return {key for key, count in before.items() if count % 1 == after[key] % 1 == 0 and after[key] > count}


def _logged_attempt(row: Row) -> float:
    """Return the attempt in a row, or minus infinity if the row has none; a mean of attempts at problems is none."""
    logged = number(row.get("attempt"))
    return logged if logged is not None and logged % 1 == 0 else -inf
