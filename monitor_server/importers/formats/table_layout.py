"""The layout of a table of text: what separates its cells, which lines are no rows, and what the decimal point is."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from monitor_server.importers.signal_names import is_known, signal_of, step_keys, ungrouped

__all__ = ["NUMBER", "Layout", "find_layout", "is_lone_heading"]

PROBE_LINES = 6
# The lines in which decimal commas are searched.
DECIMAL_LINES = 200
NUMBER = re.compile(r"\s*[-+]?(\d|\.\d|nan|inf)", re.IGNORECASE)
# A cell of a table that nothing separates but blanks: a sentence, or the name of a file, shows that it is no table.
_NUMBER_OR_NOTHING = re.compile(r"[-+]?(\d|\.\d)\S*|[-+]?(nan|inf|infinity)|none|null|n/a|<na>|-", re.IGNORECASE)
# The point then separates thousands.
_DECIMAL_COMMA = re.compile(r"[-+]?(?:\d*|[1-9]\d{0,2}(?:\.\d{3})+),\d+(?:[eE][-+]?\d+)?")
_DECIMAL_POINT = re.compile(r"[-+]?(?:\d*|[1-9]\d{0,2}(?:,\d{3})+)\.\d+(?:[eE][-+]?\d+)?")
_POINTS_OF_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
# Excel reads, and some programs write, the separator in a line of its own before the heading.
_ANNOUNCED = re.compile(r"\s*\"?sep=(.)\"?\s*", re.IGNORECASE)
# What the lines that only draw a table consist of.
_RULE = re.compile(r"[\s|+:=-]+")
_STROKE = re.compile(r"[-=]{2}")
_UNIT_SEPARATOR = "\x1f"


def _draws(line: str) -> bool:
    # One expression for both would take the square of the length for a line of dashes that ends otherwise.
    return _RULE.fullmatch(line) is not None and _STROKE.search(line) is not None


def _between_pipes(line: str) -> str:
    """Return a row of a table in Markdown; nothing for a line that only draws the table."""
    if _draws(line):
        return ""
    return line.strip().removeprefix("|").removesuffix("|").replace("|", _UNIT_SEPARATOR)


def _between_wide_gaps(line: str) -> str:
    """Return an aligned row whose names may contain single blanks."""
    return "" if _draws(line) else re.sub(r"\s{2,}|\t", _UNIT_SEPARATOR, line.strip())


def _between_blanks(line: str) -> str:
    return "" if _draws(line) else _UNIT_SEPARATOR.join(line.split())


def _unchanged(line: str) -> str:
    return "" if _ANNOUNCED.fullmatch(line) else line


@dataclass(frozen=True, slots=True)
class Layout:
    """How the rows of a table become cells.

    Attributes:
        delimiter: What separates the cells after ``prepare``.
        prepare: Returns a line with this delimiter, or nothing for a line that is no row.
        is_proven: Whether the delimiter alone shows a table; blanks and pipes also occur in other text.
        has_decimal_commas: Whether a comma is the decimal point, as in spreadsheets of many countries.
        comments: The number of lines before the heading, each of which begins with ``#``.
        has_index: Whether each row begins with its number, without a name in the heading, as pandas prints it.
    """

    delimiter: str
    prepare: Callable[[str], str] = _unchanged
    is_proven: bool = True
    has_decimal_commas: bool = False
    has_index: bool = False
    comments: int = 0

    def reader(self, lines: Iterable[str]) -> Any:  # noqa: ANN401 - the reader of csv has no public type
        """Return a reader of the rows; the heading is the first, and a line that is no row is empty."""
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.is_proven else csv.QUOTE_NONE
        return csv.reader(self._prepared(lines), delimiter=self.delimiter, quoting=quoting)

    def _prepared(self, lines: Iterable[str]) -> Iterator[str]:
        place = 0  # among the lines that are not blank, as `find_layout` counts them
        for line in lines:
            if place < self.comments or not line.strip():
                yield ""
            else:  # numpy writes the heading itself as a comment
                yield self.prepare(line.removeprefix("#").lstrip() if place == self.comments else line)
            place += bool(line.strip())

    def value(self, name: str, cell: str) -> object:
        """Return the content of a cell; numbers as spreadsheets write them become numbers, other text is unchanged."""
        text = cell.strip()
        is_share = text.endswith("%")
        text = text[:-1].rstrip() if is_share else text
        is_step = name.lower().endswith("step")
        if self.has_decimal_commas:
            if _DECIMAL_COMMA.fullmatch(text) or (is_step and _POINTS_OF_THOUSANDS.fullmatch(text)):
                text = text.replace(".", "").replace(",", ".")
        else:
            text = ungrouped(text) or text
        if not (is_share or is_step):
            return text
        try:
            return float(text) / (100.0 if is_share else 1.0)
        except ValueError:
            return cell.strip() if is_share else text


LAYOUTS = (
    Layout(","),
    Layout("\t"),
    Layout(";"),
    Layout(_UNIT_SEPARATOR, prepare=_between_pipes, is_proven=False),
    Layout(_UNIT_SEPARATOR, prepare=_between_blanks, is_proven=False),
    Layout(_UNIT_SEPARATOR, prepare=_between_wide_gaps, is_proven=False),
)


def find_layout(text: str, *, is_cut: bool) -> Layout | None:
    """Return the layout of a table, or None if the text is none.

    The first lines of a table have as many cells as the heading of names, and numbers among them.

    Args:
        text: The beginning of a file.
        is_cut: Whether the text ends within the file, so that its last line may be incomplete.
    """
    known = [line for line in text.replace("\r", "\n").split("\n")[: DECIMAL_LINES + 1] if line.strip()]
    if is_cut or len(known) > DECIMAL_LINES:
        known = known[:-1] or known
    comments = _count_comments(known)
    first = known[: comments + PROBE_LINES]
    if not first or first[0].lstrip().startswith(("{", "[", "<")):
        return None
    announced = _ANNOUNCED.fullmatch(first[0])
    for layout in LAYOUTS:
        if announced is not None and layout.delimiter != announced[1]:
            continue
        # A row may have many lines, where a text is quoted.
        fitting = _fit(replace(layout, comments=comments), known if layout.is_proven else first)
        if fitting is not None:
            return replace(fitting, has_decimal_commas=_has_commas(fitting, known))
    return None


def is_lone_heading(text: str) -> bool:
    """Whether a text is the heading of a log without a row: it names a step and a signal."""
    known = text.strip().splitlines()
    if len(known) != 1:
        return False
    names = next((tuple(known[0].split(each.delimiter)) for each in LAYOUTS[:3] if each.delimiter in known[0]), ())
    names = tuple(name.strip().strip('"') for name in names)
    return bool(step_keys(names)) and any(signal_of(name) not in (None, "lr") for name in names)


def _count_comments(lines: Sequence[str]) -> int:
    """Return the number of comments before the heading, which is the last of them if numbers follow."""
    comments = next((place for place, line in enumerate(lines) if not line.startswith("#")), 0)
    return comments - 1 if comments and NUMBER.match(lines[comments]) else comments


def _cells(layout: Layout, lines: Sequence[str]) -> list[list[str]]:
    try:
        return [cells for cells in layout.reader(lines) if cells]
    except csv.Error:
        return []


def _fit(layout: Layout, lines: Sequence[str]) -> Layout | None:
    """Return a layout that fits the first lines, with its index, or None."""
    heading, *rows = _cells(layout, lines)[:PROBE_LINES] or [[]]
    if len(heading) < 2 or not rows or any(map(NUMBER.match, heading)):  # noqa: PLR2004 - a table has two columns
        return None
    names = [name.strip() for name in heading]
    is_named = bool(step_keys(tuple(names))) or any(map(is_known, names))
    if layout.is_proven:
        unfit = sum(len(row) != len(heading) or not any(map(NUMBER.match, row)) for row in rows)
        # One row may be damaged, or the last one cut, if the names show that it is a log.
        return layout if not unfit or (unfit == 1 < len(rows) - 1 and is_named) else None
    if not is_named:
        return None
    extra = len(rows[0]) - len(heading)
    if extra not in (0, 1) or any(len(row) - len(heading) != extra for row in rows):
        return None
    if extra and [row[0] for row in rows] != [str(place) for place in range(len(rows))]:
        return None
    if layout.prepare is _between_pipes:
        fits = not extra and all(any(map(NUMBER.match, row)) for row in rows)
    else:
        fits = all(_NUMBER_OR_NOTHING.fullmatch(cell) for row in rows for cell in row)
    return replace(layout, has_index=bool(extra)) if fits else None


def _has_commas(layout: Layout, lines: Sequence[str]) -> bool:
    """Return whether numbers have decimal commas: more cells can only be read with them than only without.

    Between semicolons, which programs choose because of decimal commas, one such cell is enough, or none of either.
    """
    cells = [cell.strip().removesuffix("%").rstrip() for row in _cells(layout, lines)[1:] for cell in row]
    commas = sum(ungrouped(cell) is None and _DECIMAL_COMMA.fullmatch(cell) is not None for cell in cells)
    points = sum(
        _DECIMAL_POINT.fullmatch(cell) is not None and _POINTS_OF_THOUSANDS.fullmatch(cell) is None for cell in cells
    )
    return bool(commas) or not points if layout.delimiter == ";" else commas > points
