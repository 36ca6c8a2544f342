"""JSON documents: Hugging Face's trainer_state.json, lists of rows, and columns as pandas and W&B export them."""

import codecs
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from monitor_server.importers.corpus import folder_name
from monitor_server.importers.formats.console.named_numbers import is_evaluation
from monitor_server.importers.formats.json_lines import flat
from monitor_server.importers.formats.json_text import DECODER, read_json
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog, Row
from monitor_server.importers.signal_names import is_known, step_keys
from monitor_server.importers.source import MAX_LINE_BYTES, chunks, document

__all__ = ["JsonColumns", "JsonList", "TrainerState"]

_LOG_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_LIST = re.compile(r"\s*\[\s*(?=\{)")
_GAP = re.compile(r"[\s,]*")
# The number of a row or its step, as pandas writes them.
_PLACE = re.compile(r"[0-9]{1,16}")
MAX_PLACE = 80  # characters of the keys that lead to a list
# The longest text before the list of rows.
MAX_PREAMBLE = 1 << 20


class TrainerState:
    """The ``trainer_state.json`` of a Hugging Face checkpoint: the rows of its ``log_history``, one at a time."""

    name = "Hugging Face trainer_state.json"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the file is an object with a ``log_history``."""
        return head.lstrip().startswith(b"{") and (
            b'"log_history"' in head or (path.name == "trainer_state.json" and b'"global_step"' in head)
        )

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the one run, named after the folder of its checkpoints."""
        folder = path.parent
        if folder_name(folder).startswith("checkpoint-"):
            folder = folder / ".."
        name = (folder_name(folder) or path.stem) if path.name == "trainer_state.json" else path.stem
        yield RecordedLog(
            name=name,
            path=path,
            format=self.name,
            read=lambda report: (
                row for row in read_list(path, report, _LOG_HISTORY, "log_history") if not _is_summary(row)
            ),
        )


class JsonList:
    """A JSON list of rows, as ``json.dump(history, file)`` writes."""

    name = "JSON list"
    is_specific = False

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the file begins with a list of objects."""
        del path
        return _LIST.match(head[:4096].decode(errors="replace")) is not None

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the one run of the file."""
        yield RecordedLog(
            name=path.name, path=path, format=self.name, read=lambda report: read_list(path, report, _LIST, "a list")
        )


class JsonColumns:
    """A JSON object with a list of rows or columns within its first two levels, read as a whole."""

    name = "JSON document"
    is_specific = False

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the file has the ending ``.json`` and is one object, and not several complete lines."""
        if path.suffix.lower() != ".json" or re.match(rb"\s*\{\s*\"", head) is None:
            return False
        first, _, rest = head.lstrip().partition(b"\n")
        return not (rest.lstrip().startswith(b"{") and first.rstrip().endswith(b"}"))

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the one run of the file."""
        yield RecordedLog(name=path.name, path=path, format=self.name, read=lambda report: self._read(path, report))

    def _read(self, path: Path, report: ReadReport) -> Iterator[Row]:
        try:
            content = read_json(document(path, report))
        except (ValueError, RecursionError) as error:
            raise LogError(f"{path} must be a JSON document: {error}") from error
        rows = _training_rows(content, path, report)
        if not rows:
            raise LogError(f"{path} must hold a list of rows, or columns of numbers; found neither")
        yield from (flat(row) for row in rows)


def read_list(path: Path, report: ReadReport, start: re.Pattern[str], what: str) -> Iterator[Row]:
    """Yield the objects of a JSON list, one at a time, so that the file may be larger than memory.

    Args:
        path: File.
        report: Records the place where the list breaks off.
        start: Matches up to and including the list's opening bracket.
        what: Name of the list, for messages.

    Raises:
        LogError: If there is no such list.
    """
    for count, row in enumerate(_elements(path, report, start, what), 1):
        if isinstance(row, dict):
            yield flat(row)
        else:
            report.add_problem(path, f"row {count}", "it is no JSON object")


def _elements(path: Path, report: ReadReport, start: re.Pattern[str], what: str) -> Iterator[object]:
    decode = DECODER.raw_decode
    count = 0
    for text, left in _tails(path, report, start, what):
        position = 0
        while True:
            gap = _GAP.match(text, position)
            position = gap.end() if gap else position
            if text.startswith("]", position):
                return
            try:
                element, position = decode(text, position)
            except ValueError:  # the rest is not read yet, or damaged
                break
            except RecursionError:
                report.add_problem(path, f"row {count + 1}", "it is nested too deeply; the rest is not read")
                return
            count += 1
            yield element
        left.append(text[position:])
    report.add_problem(path, f"after row {count}", "the file ends in the middle of the list, or is damaged there")


def _tails(path: Path, report: ReadReport, start: re.Pattern[str], what: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the unread part of the list, with each piece of the file; the reader stores the rest in the list."""
    text, found = "", False
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be divided between two pieces
    for chunk in chunks(path, report):
        text += decoder.decode(chunk)
        if not found:
            begun = start.search(text)
            if begun is None:
                text = text[-MAX_PREAMBLE:]
                continue
            text, found = text[begun.end() :], True
        left: list[str] = []
        yield text, left
        text = left[0]
        if len(text) > MAX_LINE_BYTES:  # no row is this long, so the list is damaged here
            return
    if not found:
        raise LogError(f"{path} must hold {what} of JSON objects; found none")


def _is_summary(row: Row) -> bool:
    """Return whether a row is the summary at the end of a training, whose means belong to no step."""
    return "train_runtime" in row


def _training_rows(content: object, path: Path, report: ReadReport) -> list[Mapping[str, object]]:
    """Return the list of rows within a document that has signals with steps, or signals; the longest of several.

    Columns become rows. Lists under the name of an evaluation count last. Others that would count are reported.
    """
    found = [(_rank(place, rows), place or "the first level", rows) for place, rows in _lists(content) if rows]
    if not found:
        return []
    best, chosen, rows = max(found, key=lambda each: each[0])
    is_training, has_steps, has_signals, _ = best
    for rank, place, _ in found:
        if place == chosen or not has_signals or rank[1:3] != (has_steps, has_signals):
            continue
        reason = f"of the lists of rows only {chosen[:MAX_PLACE]} is read; write each run to a file of its own"
        report.add_problem(path, place[:MAX_PLACE], reason if rank[0] == is_training else "it is of an evaluation")
    return rows


def _lists(content: object, place: str = "", depth: int = 2) -> Iterator[tuple[str, list[Mapping[str, object]]]]:
    """Yield the lists of rows within two levels, each with the keys that lead to it."""
    if isinstance(content, list):
        yield place, [row for row in content if isinstance(row, dict)]
    elif isinstance(content, dict):
        yield place, _columns(content)
        for key, value in content.items() if depth else ():
            yield from _lists(value, f"{place}/{key}" if place else key, depth - 1)


def _rank(place: str, rows: list[Mapping[str, object]]) -> tuple[bool, bool, bool, int]:
    keys = tuple({key for row in rows for key in flat(row)})
    has_signals = any(map(is_known, keys))
    is_training = has_signals and not is_evaluation(place.replace("_", " ").replace("/", " "))
    return is_training, has_signals and bool(step_keys(keys)), has_signals, len(rows)


def _columns(content: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the rows of columns; keys that are more than the numbers of the rows are steps if no column is."""
    columns = {key: cells for key, value in content.items() if (cells := _cells(value))}
    rows: dict[int, dict[str, object]] = {}
    for key, cells in columns.items():
        for place, cell in cells.items():
            rows.setdefault(place, {})[key] = cell
    if step_keys(tuple(columns)) or rows.keys() == set(range(len(rows))):
        return [rows[place] for place in sorted(rows)]
    return [{"step": place, **rows[place]} for place in sorted(rows)]


def _cells(value: object) -> dict[int, object]:
    """Return a column's cells by their places, of a list of plain values, or of pandas' ``{"0": 1.0, "1": 2.0}``."""
    cells: dict[int, object] = {}
    if isinstance(value, list):
        cells = dict(enumerate(value))
    elif isinstance(value, dict) and all(_PLACE.fullmatch(key) for key in value):
        cells = {int(key): cell for key, cell in value.items()}
    return {} if any(isinstance(cell, dict | list) for cell in cells.values()) else cells
