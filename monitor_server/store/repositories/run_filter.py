"""Selects the runs of a list, and their order."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Select, func, or_

from monitor_server.store.repositories.run_order import TEXTS, RunOrder
from monitor_server.store.tables import runs

__all__ = ["Condition", "RunFilter", "Sorting", "matching_runs", "sort_keys"]

SAME_CAPITAL: Final = {"ς": "σ", "µ": "μ", "ẞ": "ß"}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a column: a text of `TEXTS` contains ``value``, or a number of `NUMBERS` is above or below it."""

    column: str
    operator: Literal["contains", "above", "below"]
    value: str | float


@dataclass(frozen=True, slots=True)
class Sorting:
    """A column of `SORTED_BY`, and the direction."""

    column: str
    is_descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Selects runs; a value that is None or empty excludes none. Each word must be in one of the run's texts."""

    project: str | None = None
    owner: str | None = None
    tag: str | None = None
    status: Sequence[str] = ()
    phase: Sequence[str] = ()
    words: Sequence[str] = ()
    is_archived: bool | None = None
    conditions: Sequence[Condition] = ()


def matching_runs(query: Select[Any], wanted: RunFilter, order: RunOrder, *, dialect: str) -> Select[Any]:
    """Restrict a query on runs to those that match."""
    query = query.select_from(runs).where(runs.c.deleted_at.is_(None))
    for column, value in ((runs.c.project, wanted.project), (runs.c.tagged_owner, wanted.owner)):
        if value is not None:
            query = query.where(column == value)
    if wanted.tag is not None:
        query = query.where(_has_tag(wanted.tag, dialect))
    for expression, some in ((order.status, wanted.status), (order.phase, wanted.phase)):
        if some:
            query = query.where(expression.in_(some))
    if wanted.is_archived is not None:
        query = query.where(runs.c.archived_at.is_not(None) == wanted.is_archived)
    for word in wanted.words:
        texts = (runs.c.search_text, order.phase, order.status)
        query = query.where(or_(*(text.contains(word.lower(), autoescape=True) for text in texts)))
    return query.where(*(_holds(condition, order, dialect) for condition in wanted.conditions))


def sort_keys(order: RunOrder, sorting: Sorting) -> list[ColumnElement[Any]]:
    """Return the sort keys of runs; runs without a value are last in both directions."""
    key = order.sort_key(sorting.column)
    if sorting.column == "urgency" and sorting.is_descending:
        return [key.desc(), runs.c.number.asc()]  # the fleet's order, reversed
    return [(key.desc() if sorting.is_descending else key.asc()).nulls_last()]


def _holds(condition: Condition, order: RunOrder, dialect: str) -> ColumnElement[bool]:
    if condition.column in TEXTS:
        return _contains(order.text(condition.column), str(condition.value), dialect)
    number = order.number(condition.column)
    return number > condition.value if condition.operator == "above" else number < condition.value


def _contains(text: ColumnElement[str], part: str, dialect: str) -> ColumnElement[bool]:
    """Return whether a text contains a part, without regard to case.

    PostgreSQL knows the case of letters beyond ASCII only where the locale of the database has it, which C has not. So
    those letters of the part are replaced in the text. Letters with one capital are the same letter.
    """
    for other, letter in SAME_CAPITAL.items():
        if letter.upper() in part.lower().upper():
            text, part = func.replace(func.lower(text), other, letter), part.lower().replace(other, letter)
    letters = {letter.lower(): letter.lower().upper() for letter in part if not letter.isascii()}
    letters = {low: high for low, high in letters.items() if high not in (low, high.lower()) and not high.isascii()}
    letters = {low: high for low, high in letters.items() if len(low) == len(high) == 1}
    if letters and dialect != "sqlite":
        text = func.translate(text, "".join(letters.values()), "".join(letters))
        part = "".join(letter.lower() if letter.lower() in letters else letter for letter in part)
    return text.icontains(part, autoescape=True)


def _has_tag(tag: str, dialect: str) -> ColumnElement[bool]:
    """Return whether a run has a tag: its JSON is between the delimiters of the stored list.

    A quote within a tag is escaped, so the delimiters with their quotes occur only between two tags.
    """
    stated = json.dumps(tag)
    places = [f"{before}{stated}{after}" for before in ("[", '", ') for after in ("]", ', "')]
    if dialect == "sqlite":
        return or_(*(func.instr(runs.c.tags, place.encode()) > 0 for place in places))
    text = func.convert_from(runs.c.tags, "UTF8")
    return or_(*(func.strpos(text, place) > 0 for place in places))
