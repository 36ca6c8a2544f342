"""Jupyter notebooks: the tables of transformers and Unsloth during training, and the printed output of cells."""

import html
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

from monitor_server.importers.formats.console.console_log import console_rows
from monitor_server.importers.formats.json_text import read_json
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog, Row
from monitor_server.importers.signal_names import is_known
from monitor_server.importers.source import document

__all__ = ["Notebook"]

_ROW, _ROW_END = re.compile(r"<tr\b", re.IGNORECASE), re.compile(r"</tr>", re.IGNORECASE)
_CELL, _CELL_END = re.compile(r"<t[dh]\b", re.IGNORECASE), re.compile(r"</t[dh]>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,200}>")
MAX_CELLS = 10_000
MAX_CELL_TEXT = 1000
MAX_STEP_DIGITS = 16


class Notebook:
    """An ``.ipynb`` whose cells contain a table with a column ``Step``, or printed rows; each such cell is a run."""

    name = "Jupyter notebook"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the file is a JSON object with cells."""
        start = head.lstrip()
        return start.startswith(b"{") and (b'"cells"' in start[:4096] or (path.suffix == ".ipynb" and b'"' in start))

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield one run for each cell with rows.

        Raises:
            LogError: If it is not a notebook, or is larger than 64 MiB.
        """
        report = ReadReport()
        for number, cell in enumerate(_cells(path, report)):
            rows = _best(cell)
            if rows:
                yield RecordedLog(
                    name=f"{path.stem}.cell{number}",
                    path=path,
                    format=self.name,
                    read=partial(_count_bytes, rows),
                )


def _count_bytes(rows: list[Row], report: ReadReport) -> Iterator[Row]:
    for row in rows:
        report.bytes_read += 16 * len(row)
        yield row


def _cells(path: Path, report: ReadReport) -> Iterator[Mapping[str, object]]:
    try:
        content = read_json(document(path, report))
    except (ValueError, RecursionError) as error:
        raise LogError(f"{path} must be a notebook: {error}") from error
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        raise LogError(f"{path} must be a notebook with cells; found none")
    return (cell for cell in islice(cells, MAX_CELLS) if isinstance(cell, dict))


def _best(cell: Mapping[str, object]) -> list[Row]:
    """Return a cell's rows: those of its tables and its printed text that have the most signals."""
    candidates: list[list[Row]] = []
    printed = ""
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        if not isinstance(output, dict):
            continue
        printed += _text(output.get("text"))
        data = output.get("data")
        if isinstance(data, dict):
            shown = _text(data.get("text/html"))
            if "<t" in shown:
                candidates.append(_table(shown))
    if printed:
        candidates.append(list(console_rows(printed.encode(errors="replace").replace(b"\r", b"\n").split(b"\n"))))
    return max(candidates, key=lambda rows: sum(len(row) for row in rows), default=[])


def _table(shown: str) -> list[Row]:
    """Return the rows of an HTML table that has a column of steps and a known signal."""
    rows = [[_plain(cell) for cell in _pieces(row, _CELL_END, _CELL)] for row in _pieces(shown, _ROW_END, _ROW)]
    rows = [row for row in rows if row]
    if not rows or "step" not in (heading := [name.lower() for name in rows[0]]) or not any(map(is_known, rows[0])):
        return []
    place = heading.index("step")
    found: list[Row] = []
    for cells in rows[1:]:
        if len(cells) == len(rows[0]) and cells[place].isdecimal() and len(cells[place]) < MAX_STEP_DIGITS:
            row = {name: cell for name, cell in zip(rows[0], cells, strict=True) if name}
            found.append({**row, "step": int(cells[place])})
    return found


def _pieces(text: str, end: re.Pattern[str], begin: re.Pattern[str]) -> Iterator[str]:
    """Yield the text between the last opening tag and each closing tag, in time linear in the text."""
    for piece in end.split(text)[:-1]:
        opened = begin.split(piece)
        if len(opened) > 1:
            yield opened[-1].partition(">")[2]


def _plain(cell: str) -> str:
    return html.unescape(_TAG.sub("", cell[:MAX_CELL_TEXT])).strip()


def _text(value: object) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
