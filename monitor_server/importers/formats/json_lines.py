"""JSON lines: one JSON object in each line, as most trainers' own loggers and verl's file logger write."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from monitor_server.importers.formats.json_text import read_json
from monitor_server.importers.protocol import ReadReport, RecordedLog, Row
from monitor_server.importers.source import HEAD_BYTES, MAX_LINE_BYTES, lines
from monitor_server.importers.source import head as read_head

__all__ = ["JsonLines", "flat"]

MAX_DEPTH = 4
PROBE_LINES = 8


class JsonLines:
    """Objects at any nesting: ``{"step": 1, "train": {"loss": 0.1}}`` has the key ``train/loss``.

    verl writes ``{"step": 1, "data": {...}}`` with orjson, which writes NaN and both infinities as null. Under ``data``
    a null is therefore read as NaN: the value was measured, and it was not finite.
    """

    name = "JSON lines"
    is_specific = False

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the first line is a JSON object, or is damaged and the next lines are JSON objects."""
        first, end, rest = head.lstrip().partition(b"\n")
        if not end and len(head) >= HEAD_BYTES and first.startswith(b"{"):  # a configuration, or a step with samples
            first, end, rest = read_head(path, size=MAX_LINE_BYTES).lstrip().partition(b"\n")
        if _is_object(first):
            return True
        was_object = first.startswith(b"{") or first.rstrip().endswith(b"}")
        if not was_object or b"\x00" in first:
            return False
        others = [line for line in rest.split(b"\n")[:PROBE_LINES] if line.strip()][:-1]  # the last may be cut off
        return bool(others) and all(map(_is_object, others))

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the one run of the file."""
        yield RecordedLog(
            name=path.name, path=path, format=self.name, read=lambda report: read_json_lines(path, report)
        )


def _is_object(line: bytes) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(read_json(line), dict)
    except (ValueError, RecursionError):
        return False


def read_json_lines(path: Path, report: ReadReport) -> Iterator[Row]:
    """Yield the rows of a file of JSON lines; a line that is not a JSON object is reported and skipped."""
    for number, line in lines(path, report):
        try:
            row = read_json(line)
        except (ValueError, RecursionError) as error:
            report.add_problem(path, f"line {number}", f"it is no JSON: {error}")
            continue
        if isinstance(row, dict):
            yield flat(row)
        else:
            report.add_problem(path, f"line {number}", "it is no JSON object")


def flat(row: Mapping[str, object]) -> Row:
    """Return a row without nesting: inner keys follow their outer keys after a slash; ``data`` adds no key.

    Objects below four levels are left out, as are lists.
    """
    if not any(isinstance(value, dict) for value in row.values()):
        return row
    found: dict[str, object] = {}
    _flatten(row, "", found, MAX_DEPTH)
    data = row.get("data")
    if isinstance(data, dict):
        found.update({str(key): math.nan for key, value in data.items() if value is None})
    return found


def _flatten(row: Mapping[str, object], prefix: str, found: dict[str, object], depth: int) -> None:
    for key, value in row.items():
        if not isinstance(value, dict):
            found.setdefault(f"{prefix}{key}", value)
        elif depth > 1:
            _flatten(value, "" if not prefix and key == "data" else f"{prefix}{key}/", found, depth - 1)
