"""Tables of text: a heading and one row for each step, as loggers, spreadsheets and W&B's page write them."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from monitor_server.importers.formats.lines_of_row import LinesOfRow
from monitor_server.importers.formats.table_layout import Layout, find_layout
from monitor_server.importers.protocol import ReadReport, RecordedLog, Row
from monitor_server.importers.signal_names import step_keys
from monitor_server.importers.source import HEAD_BYTES, MAX_LINE_BYTES, head, is_text, lines

__all__ = ["Delimited"]

MAX_COLUMNS = 10_000
# A beginning with at most this many lines has no complete row: the heading, and a row that is cut off.
CUT_LINES = 2
# The heading and a row with the largest number of columns, with names of 100 characters.
WIDE_BYTES = 2 << 20
# W&B's export of a chart has one column for each run, and two more for its band: "run - reward", "run - reward__MIN".
_RUN_AND_KEY = re.compile(r"(?P<run>.{1,200}) - (?P<key>[^\s].{0,200})")
_BAND = ("__MIN", "__MAX")


class Delimited:
    """Text separated by commas, tabs, semicolons, pipes or blanks; an empty cell means that nothing was logged."""

    name = "CSV"
    is_specific = False

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether a heading of names comes first, and then lines with as many cells, which contain numbers."""
        return is_text(head) and _layout(path, head) is not None

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the run of the file, or one for each run of a chart exported from W&B."""
        layout = _layout(path, head(path)) or Layout(",")
        heading = _heading(path, layout)
        runs = _runs(heading)
        if not runs:
            yield RecordedLog(
                name=path.name, path=path, format=self.name, read=lambda report: _rows(path, layout, report)
            )
        for run, keys in runs:
            yield RecordedLog(
                name=run,
                path=path,
                format="W&B chart export",
                read=partial(_run_rows, path, layout, heading[0].strip(), keys),
            )


def _run_rows(path: Path, layout: Layout, axis: str, keys: dict[str, str], report: ReadReport) -> Iterator[Row]:
    for row in _rows(path, layout, report):
        found = {name: row.get(column) for column, name in keys.items()}
        if any(value not in (None, "") for value in found.values()):
            yield {"step": row.get(axis), **found}


def _rows(path: Path, layout: Layout, report: ReadReport) -> Iterator[Row]:
    csv.field_size_limit(MAX_LINE_BYTES)
    lines_of_row = LinesOfRow(_texts(path, report))
    reader: Iterator[list[str]] = layout.reader(lines_of_row)
    heading: Sequence[str] | None = None
    width = 0
    while True:
        lines_of_row.begin()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if heading is not None:
                reader = _read_again(layout, lines_of_row)
            report.add_problem(path, f"line {lines_of_row.number}", f"it is no row: {error}")
            continue
        if heading is not None and lines_of_row.is_cut(layout, width):
            reader = _read_again(layout, lines_of_row)
            report.add_problem(path, f"line {lines_of_row.number}", "it has a quote that does not end in it")
            continue
        if not cells:  # the line is no row
            continue
        if heading is None or set(map(str.strip, cells)).issuperset(heading):  # a resumed loop writes one, too
            width = len(cells)
            heading = _distinct([name.strip() for name in cells[:MAX_COLUMNS]])
            continue
        cells = cells[layout.has_index :]
        if len(cells) != width:
            report.add_problem(path, f"line {lines_of_row.number}", f"it has {len(cells)} cells, not {width}")
        else:
            named = zip(heading, cells, strict=False)  # the cells beyond the largest number of columns have no name
            yield {name: layout.value(name, cell) for name, cell in named if cell.strip()}


def _read_again(layout: Layout, lines_of_row: LinesOfRow) -> Iterator[list[str]]:
    """Return a reader that goes on in the second line of the newest row; one that has reached the end does not."""
    lines_of_row.read_again()
    found: Iterator[list[str]] = replace(layout, comments=0).reader(lines_of_row)
    return found


def _texts(path: Path, report: ReadReport) -> Iterator[str]:
    return (line.decode(errors="replace").replace("\x00", "") for _, line in lines(path, report))


def _distinct(heading: list[str]) -> list[str]:
    """Number the later columns of the same name, as pandas does, so that the first one keeps its values."""
    count: dict[str, int] = {}
    distinct = []
    for name in heading:
        before = count[name] = count.get(name, -1) + 1
        distinct.append(f"{name}.{before}" if before else name)
    return distinct


def _heading(path: Path, layout: Layout) -> list[str]:
    try:
        return next((cells for cells in layout.reader(_texts(path, ReadReport())) if cells), [])
    except csv.Error:
        return []


def _layout(path: Path, known: bytes) -> Layout | None:
    text = _beginning(path, known)
    return find_layout(text, is_cut=len(text) >= HEAD_BYTES)


def _beginning(path: Path, known: bytes) -> str:
    """Return the first lines of a file as text, with at least one row even if the heading fills the known bytes."""
    if len(known) >= HEAD_BYTES and len(known.splitlines()) <= CUT_LINES:
        known = head(path, size=WIDE_BYTES)
    return known.decode(errors="replace").replace("\x00", "")


def _runs(heading: list[str]) -> list[tuple[str, dict[str, str]]]:
    """Return, for a chart exported from W&B, each run's columns and their keys; several runs may share a name."""
    if not step_keys(tuple(heading[:1])) or not (heading[0] == "Step" or _has_bands(heading[1:])):
        return []
    runs: dict[tuple[str, int], dict[str, str]] = {}
    before = Counter[str]()
    for name, column in list(zip(heading, _distinct(heading), strict=True))[1:]:
        found = _RUN_AND_KEY.fullmatch(name)
        if found is None:
            return []
        if not name.endswith(_BAND):
            runs.setdefault((found["run"], before[name]), {})[column] = found["key"]
            before[name] += 1
    return [(run, keys) for (run, _), keys in runs.items()]


def _has_bands(columns: list[str]) -> bool:
    """Whether each column has its band, as in W&B's exports and in no table of a person."""
    return {f"{column}{end}" for column in columns if not column.endswith(_BAND) for end in _BAND} <= set(columns)
