"""W&B's offline run files (``run-ID.wandb``): LevelDB's log framing around Protocol Buffers, read without wandb."""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from monitor_server.importers.formats.json_lines import flat
from monitor_server.importers.formats.json_text import read_json
from monitor_server.importers.formats.protobuf import fields, to_signed
from monitor_server.importers.protocol import ReadReport, RecordedLog, Row
from monitor_server.importers.signal_names import CALLS, is_known, number, step_keys
from monitor_server.importers.source import MAX_LINE_BYTES, chunks

__all__ = ["WandbFile"]

MAGIC = b":W&B"
FILE_HEADER_BYTES, RECORD_HEADER_BYTES, BLOCK_BYTES = 7, 7, 32768
DAMAGED, FULL, FIRST, LAST = 0, 1, 2, 4
# Numbers of fields: Record{2 history, 17 run, 18 exit}, RunRecord{1 run_id, 8 display_name},
# HistoryRecord{1 item, 2 step}, HistoryStep{1 num}, HistoryItem{1 key, 2 nested_key, 4 boolean, 5 integer, 6 number,
# 7 text, 16 value_json}.
HISTORY, RUN, EXIT = 2, 17, 18
HEAD_RECORDS = 64
# Rows in which a trainer's own step must occur, if it logs one, and rows of a signal in which it must move.
ROWS_TO_NAME_STEP, ROWS_TO_MOVE = 100, 3


class WandbFile:
    """The transaction log that W&B keeps for each run, offline or not; its history rows are the run's rows."""

    name = "W&B run file"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the file begins with W&B's magic bytes."""
        del path
        return head.startswith(MAGIC)

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the one run of the file, under its name in W&B."""
        name = _display_name(path) or path.stem.removeprefix("run-")
        yield RecordedLog(name=name, path=path, format=self.name, read=lambda report: _rows(path, report))


def _rows(path: Path, report: ReadReport) -> Iterator[Row]:
    resting = _resting_steps(path)
    for row in _all_rows(path, report):
        yield {key: value for key, value in row.items() if key not in resting} if resting else row


def _resting_steps(path: Path) -> frozenset[str]:
    """Return the keys of the trainer's own step if it has one value in all rows of a run that has ended.

    W&B adds the newest ``train/global_step`` to the rows that a callback logs, and all of these would be one step.
    Until the run ends, that step may still move, and the rows would then be other steps than before.
    """
    names: set[str] = set()
    values: set[object] = set()
    signals: Counter[str] = Counter()
    for place, row in enumerate(_all_rows(path, ReadReport())):
        own = {key: value for key in step_keys(tuple(row)) if key != CALLS and (value := number(row[key])) is not None}
        names.update(own)
        values.update(own.values())
        if len(values) > 1 or (not names and place >= ROWS_TO_NAME_STEP):
            return frozenset()
        signals.update(key for key in row if own and is_known(key))
    return frozenset(names) if max(signals.values(), default=0) >= ROWS_TO_MOVE and _has_ended(path) else frozenset()


def _has_ended(path: Path) -> bool:
    with suppress(ValueError, RecursionError):  # a damaged record
        return any(field == EXIT for _, record in _records(path, ReadReport()) for field, _ in fields(record))
    return False


def _all_rows(path: Path, report: ReadReport) -> Iterator[Row]:
    for place, record in _records(path, report):
        try:
            for field, value in fields(record):
                if field == HISTORY and isinstance(value, bytes):
                    yield flat(_history(value))
        except (ValueError, RecursionError) as error:
            report.add_problem(path, f"byte {place}", f"a record cannot be read: {error}")


def _display_name(path: Path) -> str:
    try:
        for count, (_, record) in enumerate(_records(path, ReadReport())):
            for field, value in fields(record):
                if field == RUN and isinstance(value, bytes):
                    found = {key: text for key, text in fields(value) if isinstance(text, bytes)}
                    return found.get(8, found.get(1, b"")).decode(errors="replace")
            if count > HEAD_RECORDS:
                break
    except (OSError, ValueError):
        pass
    return ""


def _records(path: Path, report: ReadReport) -> Iterator[tuple[int, bytes]]:
    """Yield each record with its position; damage costs the record and the rest of its block of 32 KiB."""
    parts: list[bytes] | None = None
    for place, kind, content in _fragments(path, report):
        if kind in (FULL, FIRST):
            parts = []
        if parts is None or kind == DAMAGED:  # the record's beginning, or this part of it, is lost
            parts = None
            continue
        parts.append(content)
        if len(parts) * BLOCK_BYTES > MAX_LINE_BYTES:
            report.add_problem(path, f"byte {place}", f"a record is longer than {MAX_LINE_BYTES >> 20} MiB")
            parts = None
        elif kind in (FULL, LAST):
            yield place, b"".join(parts)
            parts = None
    if parts:
        report.add_problem(path, "its end", "the file ends within a record")


def _fragments(path: Path, report: ReadReport) -> Iterator[tuple[int, int, bytes]]:
    """Yield the parts of records: position, kind and content."""
    for begin, block in _blocks(path, report):
        position = FILE_HEADER_BYTES if begin == 0 else 0
        while len(block) - position >= RECORD_HEADER_BYTES:
            checksum, length, kind = struct.unpack_from("<IHB", block, position)
            content = block[position + RECORD_HEADER_BYTES : position + RECORD_HEADER_BYTES + length]
            place, position = begin + position, position + RECORD_HEADER_BYTES + length
            if kind == 0 and length == 0 and checksum == 0:  # padding of the block
                break
            if len(content) < length and len(block) < BLOCK_BYTES:
                report.add_problem(path, f"byte {place}", "the file ends within a record")
                return
            if zlib.crc32(content, zlib.crc32(bytes([kind]))) != checksum or kind > LAST:
                report.add_problem(path, f"byte {place}", "a record's checksum is wrong")
                yield place, DAMAGED, b""
                break
            yield place, kind, content


def _blocks(path: Path, report: ReadReport) -> Iterator[tuple[int, bytes]]:
    buffer, begin = b"", 0
    for chunk in chunks(path, report):
        buffer += chunk
        whole = len(buffer) // BLOCK_BYTES * BLOCK_BYTES
        for start in range(0, whole, BLOCK_BYTES):
            yield begin + start, buffer[start : start + BLOCK_BYTES]
        begin, buffer = begin + whole, buffer[whole:]
    if buffer:
        yield begin, buffer


def _history(history: bytes) -> dict[str, object]:
    row: dict[str, object] = {}
    for field, content in fields(history):
        if field == 1 and isinstance(content, bytes):
            key, value = _item(content)
            row[key] = value
        elif field == 2 and isinstance(content, bytes):  # noqa: PLR2004 - HistoryRecord.step
            step = dict(fields(content)).get(1)
            row.setdefault("_step", to_signed(step) if isinstance(step, int) else None)
    return row


def _item(item: bytes) -> tuple[str, object]:
    """Return a history item's key, nested keys joined by slashes, and its value."""
    key, nested, value = "", [], None
    for field, content in fields(item):
        if isinstance(content, bytes):
            if field == 1:
                key = content.decode(errors="replace")
            elif field == 2:  # noqa: PLR2004 - nested_key
                nested.append(content.decode(errors="replace"))
            elif field in (8, 16):  # json, value_json
                value = read_json(content)
            elif field == 7:  # noqa: PLR2004 - text
                value = content.decode(errors="replace")
        elif field == 5 and isinstance(content, int):  # noqa: PLR2004 - integer, zigzag
            value = (content >> 1) ^ -(content & 1)
        elif field == 6 and isinstance(content, float):  # noqa: PLR2004 - number
            value = content
        elif field == 4:  # noqa: PLR2004 - boolean
            value = bool(content)
    return key or "/".join(nested), value
