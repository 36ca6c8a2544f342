"""CSV and TSV: a heading and one row for each step, as loggers write them and W&B's page exports them."""

import csv
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from monitor_server.importers.protocol import ReadReport, RecordedLog, Row
from monitor_server.importers.signal_names import number, ungrouped
from monitor_server.importers.source import HEAD_BYTES, MAX_LINE_BYTES, head, lines

__all__ = ["Delimited"]

DELIMITERS = (",", "\t", ";")
MAX_COLUMNS = 10_000
PROBE_LINES = 6
# A beginning with at most this many lines has no complete row: the heading, and a row that is cut off.
CUT_LINES = 2
# The heading and a row with the largest number of columns, with names of 100 characters.
WIDE_BYTES = 2 << 20
_NUMBER = re.compile(r"\s*[-+]?(\d|\.\d|nan|inf)", re.IGNORECASE)
# If semicolons separate the cells, a comma is the decimal point of spreadsheets in many countries.
# The point then separates thousands.
_DECIMAL_COMMA = re.compile(r"[-+]?(?:\d*|[1-9]\d{0,2}(?:\.\d{3})+),\d+(?:[eE][-+]?\d+)?")
# W&B's export of a chart has one column for each run, and two more for its band: "run - reward", "run - reward__MIN".
_RUN_AND_KEY = re.compile(r"(?P<run>.{1,200}) - (?P<key>[^\s].{0,200})")
_BAND = ("__MIN", "__MAX")


class Delimited:
    """Text separated by commas, tabs or semicolons; an empty cell means that the value was not logged."""

    name = "CSV"
    is_specific = False

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether a heading of names comes first, and then lines with as many cells, which contain numbers."""
        if b"\x00" in head:
            return False
        return _delimiter(_beginning(path, head)) is not None

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the run of the file, or one for each run of a chart exported from W&B."""
        heading, delimiter = _heading(path)
        runs = _runs(heading)
        if not runs:
            yield RecordedLog(
                name=path.name, path=path, format=self.name, read=lambda report: _rows(path, delimiter, report)
            )
        for run, keys in runs.items():
            yield RecordedLog(
                name=run, path=path, format="W&B chart export", read=partial(_run_rows, path, delimiter, keys)
            )


def _run_rows(path: Path, delimiter: str, keys: dict[str, str], report: ReadReport) -> Iterator[Row]:
    for row in _rows(path, delimiter, report):
        found = {name: row.get(column) for column, name in keys.items()}
        if any(value not in (None, "") for value in found.values()):
            yield {"step": _integer(row.get("Step")), **found}


def _rows(path: Path, delimiter: str, report: ReadReport) -> Iterator[Row]:
    csv.field_size_limit(MAX_LINE_BYTES)
    texts = (line.decode(errors="replace").replace("\x00", "") for _, line in lines(path, report))
    reader = csv.reader(texts, delimiter=delimiter)
    heading: Sequence[str] | None = None
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            report.add_problem(path, f"line {reader.line_num}", f"it is no row: {error}")
            continue
        if heading is None:
            heading = _distinct([name.strip() for name in cells[:MAX_COLUMNS]])
        elif len(cells) != len(heading):
            report.add_problem(path, f"line {reader.line_num}", f"it has {len(cells)} cells, not {len(heading)}")
        else:
            yield {
                name: _cell(name, cell, delimiter) for name, cell in zip(heading, cells, strict=True) if cell.strip()
            }


def _distinct(heading: list[str]) -> list[str]:
    """Number the later columns of the same name, as pandas does, so that the first one keeps its values."""
    count: dict[str, int] = {}
    distinct = []
    for name in heading:
        before = count[name] = count.get(name, -1) + 1
        distinct.append(f"{name}.{before}" if before else name)
    return distinct


def _cell(name: str, cell: str, delimiter: str) -> object:
    """Return the content of a cell; numbers as spreadsheets write them become numbers."""
    text = cell.strip()
    is_share = text.endswith("%")
    text = text[:-1].rstrip() if is_share else text
    if delimiter == ";" and _DECIMAL_COMMA.fullmatch(text):
        text = text.replace(".", "").replace(",", ".")
    elif delimiter == ",":
        text = ungrouped(text) or text
    share = number(text) if is_share else None
    if share is not None:
        return share / 100.0
    return _integer(text) if name.lower().endswith("step") else text


def _integer(cell: object) -> object:
    """Return a step as a number, so that it is recognised as a step; other text stays unchanged."""
    try:
        return float(str(cell))
    except ValueError:
        return cell


def _heading(path: Path) -> tuple[list[str], str]:
    first = b""
    for _, line in lines(path, ReadReport()):
        first = line
        break
    delimiter = _delimiter(_beginning(path, head(path))) or ","
    return next(csv.reader([first.decode(errors="replace")], delimiter=delimiter), []), delimiter


def _beginning(path: Path, known: bytes) -> str:
    """Return the first lines of a file as text, with at least one row even if the heading fills the known bytes."""
    if len(known) >= HEAD_BYTES and len(known.splitlines()) <= CUT_LINES:
        known = head(path, size=WIDE_BYTES)
    return known.decode(errors="replace")


def _delimiter(text: str) -> str | None:
    """Return the delimiter: the first lines have as many cells as the heading of names, and numbers among them."""
    first = [line for line in text.replace("\r", "\n").split("\n")[: PROBE_LINES + 1] if line][:PROBE_LINES]
    if len(first) > PROBE_LINES - 1 or len(text) >= HEAD_BYTES:
        first = first[:-1] or first  # the last line may be cut off
    if not first or first[0].lstrip().startswith(("{", "[", "<")):
        return None
    for delimiter in DELIMITERS:
        try:
            heading, *rows = csv.reader(first, delimiter=delimiter)
        except (csv.Error, ValueError):
            continue
        if (
            len(heading) > 1
            and rows
            and not any(map(_NUMBER.match, heading))
            and all(len(row) == len(heading) and any(map(_NUMBER.match, row)) for row in rows)
        ):
            return delimiter
    return None


def _runs(heading: list[str]) -> dict[str, dict[str, str]]:
    """Return, for a chart exported from W&B, each run's columns and their keys."""
    if not heading or heading[0] != "Step":
        return {}
    runs: dict[str, dict[str, str]] = {}
    for column in heading[1:]:
        found = _RUN_AND_KEY.fullmatch(column)
        if found is None:
            return {}
        if not column.endswith(_BAND):
            runs.setdefault(found["run"], {})[column] = found["key"]
    return runs
