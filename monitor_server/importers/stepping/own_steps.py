"""The steps that the rows of a log have themselves, or W&B's count in place of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from monitor_server.importers.protocol import RecordedRow, Row
from monitor_server.importers.signal_names import CALLS, SIGNALS, number, other_step_keys, step_keys, ungrouped

__all__ = ["MAX_STEP", "LoggedRow", "usable_step", "with_steps"]

MAX_STEP = 1 << 53
MAX_EARLY = 100  # rows that wait for the first step of the training


class LoggedRow(NamedTuple):
    """A row of a log, with its signals and its steps."""

    place: int  # in the log, from 0
    logged: Row
    signals: dict[str, float]
    given: list[float]  # the row's own steps, the most trusted first
    is_counted: bool = False  # it has W&B's count alone, beside a trainer's steps
    step: int | None = None  # the usable one of its own steps, counted on over the epochs


def with_steps(rows: Iterable[tuple[int, Row]], named: Callable[[Row], dict[str, float]]) -> Iterator["LoggedRow"]:
    """Yield rows with their signals and steps.

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
        yield from (LoggedRow(*each) for each in early)
        early.clear()
        given = own if has_own or (own and has_own is None) else count or [counted + 1.0] * bool(own)
        counted = max([counted, *given])
        yield LoggedRow(place, row, signals, given, bool(has_own and count and not own))
    yield from (LoggedRow(*each) for each in early)


def _number_of_step(value: object) -> float | None:
    """Return the number of a step, also of a text with commas between its thousands."""
    return number(ungrouped(value.strip()) if isinstance(value, str) else value)


def usable_step(given: Sequence[float]) -> int | None:
    """Return the first usable of a row's own steps; NaN and infinity are none."""
    return next((int(step) for step in given if 0.0 <= step < MAX_STEP and step % 1 == 0), None)
