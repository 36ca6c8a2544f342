"""TensorBoard event files: TFRecord framing around Event messages, read without TensorFlow.

A record is ``length (8 bytes) · CRC of the length (4) · Event · CRC of the Event (4)``, all little-endian. Every
scalar's checksum is verified, so a flipped bit is reported and never read as a value.
"""

import math
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from monitor_server.importers.formats.columns import Columns
from monitor_server.importers.formats.protobuf import MAX_VARINT_BYTES
from monitor_server.importers.formats.tensorboard.event_records import (
    FOOTER_BYTES,
    HEADER_BYTES,
    Scalars,
    are_whole,
    decode_steps,
    gather,
    hash_rows,
    is_header,
    next_header,
    scalars_of,
    simple_tag,
)
from monitor_server.importers.formats.tensorboard.repeated_records import RecordCycle
from monitor_server.importers.formats.tensorboard.repeated_scalars import ScalarCycle
from monitor_server.importers.protocol import ReadReport, RecordedLog, Row
from monitor_server.importers.source import chunks

__all__ = ["EventFile", "event_files"]

# Events with scalars are far smaller; larger ones (histograms, images, graphs) are skipped.
MAX_SCALAR_BYTES = 2048
MAX_RECORD_BYTES = 1 << 32
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
READ_BYTES = 4 << 20
LEARN_BYTES = 1 << 16  # these are read record by record before a cycle of their lengths is searched for
SIMPLE_BYTES = 24  # a simple scalar is longer
MAX_SHAPES = 1 << 16


class EventFile:
    """Event files (``events.out.tfevents.*``) of torch, tensorboardX, TensorFlow and trainers that use them.

    All event files of one folder are one run, as in TensorBoard.
    """

    name = "TensorBoard event file"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the first record's length and its checksum agree."""
        del path
        return len(head) > HEADER_BYTES and is_header(head, 0)

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the run of one event file."""
        yield from event_files(path.name, [path])


def event_files(name: str, paths: list[Path]) -> Iterator[RecordedLog]:
    """Yield the run that the event files of one folder form together, read in the order of their names."""
    yield RecordedLog(name=name, path=paths[0], format=EventFile.name, read=lambda report: _rows(paths, report))


def _rows(paths: list[Path], report: ReadReport) -> Iterator[Row]:
    columns = Columns()
    for path in paths:
        reader = _Reader(path, report, columns)
        reader.read()
    yield from columns.rows()


class _Reader:
    """Reads one event file into columns."""

    def __init__(self, path: Path, report: ReadReport, columns: Columns) -> None:
        self._path, self._report, self._columns = path, report, columns
        self._offset = 0  # of the buffer's first byte in the file
        self._cycle = RecordCycle(FRAME_BYTES)
        self._to_skip = 0  # bytes of a large record that are not read yet
        self._tags: list[str] = []
        self._numbers: dict[str, int] = {}
        # The bytes between a step and a value → place of the tag, -1 if it is no scalar.
        self._shapes: dict[bytes, int] = {}

    def read(self) -> None:
        buffer = b""
        for chunk in chunks(self._path, self._report, size=READ_BYTES):
            skipped = min(self._to_skip, len(chunk))
            self._to_skip -= skipped
            self._offset += skipped
            buffer = self._consume(buffer + chunk[skipped:])
        if buffer or self._to_skip:
            self._problem(0, "the file ends within a record")

    def _consume(self, buffer: bytes) -> bytes:
        """Read the complete records of a buffer and return the rest of it."""
        starts, lengths, position = array("q"), array("q"), 0
        size, unpack = len(buffer), struct.Struct("<Q").unpack_from
        # Up to here a small record and the header after it are within the buffer, whatever its length.
        sure = size - MAX_SCALAR_BYTES - FRAME_BYTES - HEADER_BYTES
        add_start, add_length = starts.append, lengths.append
        while size - position >= HEADER_BYTES:
            (length,) = unpack(buffer, position)
            while length <= MAX_SCALAR_BYTES and position <= sure:
                until = min(sure, position + LEARN_BYTES)
                while length <= MAX_SCALAR_BYTES and position <= until:
                    add_start(position)
                    add_length(length)
                    position += FRAME_BYTES + length
                    (length,) = unpack(buffer, position)
                if length <= MAX_SCALAR_BYTES and position <= sure:
                    self._cycle.learn(lengths)
                    position = self._read_cycles(buffer, position, sure, starts, lengths)
                    (length,) = unpack(buffer, position)
            if length > MAX_SCALAR_BYTES and not (length < MAX_RECORD_BYTES and is_header(buffer, position)):
                self._use(buffer, starts, lengths)
                starts, lengths = array("q"), array("q")
                add_start, add_length = starts.append, lengths.append
                following = next_header(buffer, position + 1)
                self._problem(position, "a record is damaged; reading goes on at the next whole one")
                position = following
                continue
            end = position + HEADER_BYTES + length + FOOTER_BYTES
            if end > size and length > MAX_SCALAR_BYTES:  # it is skipped, even if a part of it is still to come
                self._to_skip, position = end - size, size
                break
            if end > size:
                break
            if length <= MAX_SCALAR_BYTES:
                add_start(position)
                add_length(length)
            position = end
        self._use(buffer, starts, lengths)
        self._offset += position
        return buffer[position:]

    def _read_cycles(self, buffer: bytes, position: int, sure: int, starts: "array[int]", lengths: "array[int]") -> int:
        """Read the records from ``position`` on that repeat the newest ones, and return where the next one begins."""
        cycle, tags = self._scalar_cycle(buffer, starts, lengths)
        found = cycle.read(buffer, position, sure) if cycle is not None else None
        if cycle is None or found is None:
            return self._cycle.extend(buffer, position, sure, starts, lengths)
        self._use(buffer, starts, lengths)
        del starts[:], lengths[:]
        self._columns.extend_cycles(self._tags, tags, found.steps, found.values, found.times)
        return position + len(found.steps) * cycle.size

    def _scalar_cycle(
        self, buffer: bytes, starts: "array[int]", lengths: "array[int]"
    ) -> tuple[ScalarCycle | None, list[int]]:
        """Return the newest cycle of records and their tags; None if they are not simple scalars."""
        records, step_bytes, tags = [], [], []
        for start, length in zip(starts[-self._cycle.count :], lengths[-self._cycle.count :], strict=True):
            record = buffer[start : start + FRAME_BYTES + length]
            event = record[HEADER_BYTES:-FOOTER_BYTES]
            size = next((place for place, byte in enumerate(event[10:20], 1) if byte < 0x80), 0)  # noqa: PLR2004
            if length <= SIMPLE_BYTES or event[0] != 0x09 or event[9] != 0x10 or not size:  # noqa: PLR2004 - field keys
                return None, []
            tag = self._tag(event, event[10 + size : -4])
            if tag < 0:
                return None, []
            records.append(record)
            step_bytes.append(size)
            tags.append(tag)
        return (ScalarCycle.of(records, step_bytes) if records else None), tags

    def _use(self, buffer: bytes, starts: "array[int]", lengths: "array[int]") -> None:
        """Verify the checksums of small records and store their scalars, all records of one length at once."""
        if not starts:
            return
        where, sizes = np.array(starts), np.array(lengths)
        found, others = Scalars(len(where)), []
        for length in np.unique(sizes):
            places = np.flatnonzero(sizes == length)
            records = gather(buffer, where[places], int(length))
            is_whole = are_whole(records)
            others += [(int(place), False) for place in places[~is_whole]]
            simple, records = places[is_whole], records[is_whole, HEADER_BYTES:-FOOTER_BYTES]
            others += [(int(place), True) for place in simple[self._take_simple(records, simple, found)]]
        self._take_others(buffer, starts, lengths, sorted(others), found)

    def _take_simple(
        self, events: "NDArray[np.uint8]", places: "NDArray[np.int64]", found: "Scalars"
    ) -> "NDArray[np.bool_]":
        """Store the usual scalars among Events of one length and return which of the Events are different.

        The usual one is ``09 time 10 step``, and a summary with one value whose float is last. The bytes between the
        step and the float are the same in all Events of a tag; `_parse` learns them from the first.
        """
        count, length = events.shape
        is_other = np.ones(count, np.bool_)
        if length <= SIMPLE_BYTES:
            return is_other
        is_usual = (events[:, 0] == 0x09) & (events[:, 9] == 0x10)  # noqa: PLR2004 - field keys
        last = (events[:, 10 : 10 + MAX_VARINT_BYTES] < 0x80).argmax(axis=1)  # noqa: PLR2004 - the last byte of a step
        for size in np.unique(last[is_usual]).tolist():
            middle = 11 + size
            rows = np.flatnonzero(is_usual & (last == size) & (events[:, 10 + size] < 0x80))  # noqa: PLR2004
            if length - 4 <= middle or not len(rows):
                continue
            chosen = events[rows]
            shapes = np.ascontiguousarray(chosen[:, middle:-4])
            _, first, which = np.unique(hash_rows(shapes), return_index=True, return_inverse=True)
            tags = [self._tag(chosen[place].tobytes(), shapes[place].tobytes()) for place in first.tolist()]
            is_tagged = np.array([tag >= 0 for tag in tags])[which] & (shapes == shapes[first][which]).all(axis=1)
            kept = rows[is_tagged]
            found.put(
                places[kept],
                np.array(tags)[which][is_tagged],
                decode_steps(chosen[is_tagged, 10:middle]),
                np.ascontiguousarray(events[kept, -4:]).view("<f4")[:, 0],
                np.ascontiguousarray(events[kept, 1:9]).view("<f8")[:, 0],
            )
            is_other[kept] = False
        return is_other

    def _tag(self, event: bytes, shape: bytes) -> int:
        """Return the number of the tag of a simple scalar, or -1 if an Event is something else."""
        if shape not in self._shapes:
            if len(self._shapes) >= MAX_SHAPES:
                return -1
            self._shapes[shape] = -1
            try:
                tag = simple_tag(event, shape)
            except (ValueError, TypeError, OverflowError):
                tag = None  # the problem is reported when the record is read on its own
            if tag is not None:
                self._shapes[shape] = self._number(tag)
        return self._shapes[shape]

    def _number(self, tag: str) -> int:
        if tag not in self._numbers:
            self._numbers[tag] = len(self._tags)
            self._tags.append(tag)
        return self._numbers[tag]

    def _take_others(
        self,
        buffer: bytes,
        starts: "array[int]",
        lengths: "array[int]",
        others: list[tuple[int, bool]],
        found: "Scalars",
    ) -> None:
        """Read the records that are not simple scalars one by one, and add all scalars in the order of the file."""
        done = 0
        for place, is_whole in others:
            if not is_whole:
                self._problem(starts[place], "a record's checksum is wrong")
                continue
            begin = starts[place] + HEADER_BYTES
            try:
                scalars = list(scalars_of(buffer[begin : begin + lengths[place]]))
            except (ValueError, TypeError, OverflowError) as error:
                self._problem(starts[place], f"a record is no Event: {error}")
                continue
            if len(scalars) == 1:
                tag, step, value, time = scalars[0]
                found.put(place, self._number(tag), step, value, math.nan if time is None else time)
            elif scalars:
                self._columns.extend(self._tags, *found.between(done, place))
                done = place
                for tag, step, value, time in scalars:
                    self._columns.add(tag, step, value, time)
        self._columns.extend(self._tags, *found.between(done, len(starts)))

    def _problem(self, position: int, message: str) -> None:
        self._report.add_problem(self._path, f"byte {self._offset + position}", message)
