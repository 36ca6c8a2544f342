"""Formats JSON values of the API for readers and for spreadsheets."""

from collections.abc import Mapping
from typing import Final

from dashboard.figures.curves.lines import spell_value

__all__ = ["csv_cell", "plain"]

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")  # assets/save_chart.js has them too


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
