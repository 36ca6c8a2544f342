"""Formats JSON values of the API for readers and for spreadsheets, and reads the numbers that people type."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

from dashboard.figures.curves.lines import spell_value

__all__ = ["csv_cell", "plain", "read_number", "read_numbers", "read_step"]

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")  # assets/save_chart.js has them too
NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
STEP: Final = re.compile(r"\d{1,16}", re.ASCII)
LARGEST: Final = 2**53  # of the steps of the collector, and of the whole numbers that JSON states exactly
SHOWN: Final = 100  # characters of a refused text


def plain(value: object) -> str:
    """Format a JSON value for readers: short numbers, pairs of steps as ranges, lists with commas."""
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{str(name).replace('_', ' ')} {plain(held)}" for name, held in value.items())
    if isinstance(value, list):
        return _range(value) or ", ".join(plain(item) for item in value)
    return _number(value) if isinstance(value, int | float) else str(value)


def csv_cell(value: object) -> object:
    """Return a value for a spreadsheet; a text that would be taken for a formula gets an apostrophe before it."""
    text = ", ".join(str(each) for each in value) if isinstance(value, list) else value
    return f"'{text}" if isinstance(text, str) and text.startswith(FORMULA) else text


def read_number(given: object) -> float | None:
    """Return the number of a number field, an int where it is whole; None where the field is empty.

    Raises:
        ValueError: If the field holds another text.
    """
    text = _typed_text(given)
    if not text:
        return None
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"must be a number such as 3, 0.5 or 1e-3, got {text[:SHOWN]!r}; correct it")
    return int(value) if value.is_integer() and abs(value) <= LARGEST else value


def read_numbers(fields: Mapping[str, object], names: Iterable[str]) -> tuple[dict[str, object], dict[str, str]]:
    """Return the values of a form with the numbers of its number fields, and the problem of each field.

    Args:
        fields: The values by the names of the fields.
        names: The number fields to read; the others stay as they are.
    """
    values, problems = dict(fields), dict.fromkeys(fields, "")
    for name in names:
        try:
            values[name] = read_number(fields.get(name))
        except ValueError as error:
            problems[name] = str(error)
    return values, problems


def read_step(given: object) -> int | None:
    """Return the step of a field; None where the field is empty.

    Raises:
        ValueError: If the field holds another text.
    """
    text = _typed_text(given)
    if not text:
        return None
    if STEP.fullmatch(text) is None or int(text) > LARGEST:
        what = f"must be a whole number from 0 to 2^53, got {text[:SHOWN]!r}"
        raise ValueError(f"{what}; correct it, or leave the field empty")
    return int(text)


def _typed_text(given: object) -> str:
    return str("" if given is None else given).strip()


def _range(values: list[object]) -> str | None:
    """Format two steps as a range, or as one step if they are equal; return None for any other list."""
    match values:
        case [int(first), int(last)]:
            return str(first) if first == last else f"{first} to {last}"
    return None


def _number(value: float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    return spell_value(value)
