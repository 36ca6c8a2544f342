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

from monitor_server.importers.columns import Columns
from monitor_server.importers.formats.crc32c import masked_crc32c
from monitor_server.importers.formats.protobuf import MAX_VARINT_BYTES, fields, signed
from monitor_server.importers.protocol import Log, ReadReport, Row
from monitor_server.importers.source import chunks

__all__ = ["EventFile", "event_files"]

HEADER_BYTES, FOOTER_BYTES = 12, 4
# Events that hold scalars are far smaller; larger ones (histograms, images, graphs) are stepped over.
MAX_SCALAR_BYTES = 2048
MAX_RECORD_BYTES = 1 << 32
READ_BYTES = 4 << 20
MAX_TAG_BYTES = 1024
SIMPLE_BYTES = 24  # a simple scalar is longer
MAX_SHAPES = 1 << 16
HASH_FACTOR = 0x9E3779B97F4A7C15  # odd, so that multiplying loses nothing; from the golden ratio (Knuth, TAOCP 3, 6.4)
# Numbers of fields: Event{1 wall_time, 2 step, 5 summary}, Summary{1 value}, Value{1 tag, 2 simple_value, 8 tensor},
# TensorProto{1 dtype, 4 tensor_content, 5 float_val, 6 double_val}.
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}


class EventFile:
    """Event files (``events.out.tfevents.*``) of torch, tensorboardX, TensorFlow and trainers that use them.

    All event files of one folder are one run, as in TensorBoard.
    """

    name = "TensorBoard event file"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell whether the first record's length and its checksum agree."""
        del path
        return len(head) > HEADER_BYTES and _is_header(head, 0)

    def logs(self, path: Path) -> Iterator[Log]:
        """Yield the run of one event file."""
        yield from event_files(path.name, [path])


def event_files(name: str, paths: list[Path]) -> Iterator[Log]:
    """Yield the run that the event files of one folder hold together, read in the order of their names."""
    yield Log(name=name, path=paths[0], format=EventFile.name, read=lambda report: _rows(paths, report))


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
        self._to_skip = 0  # bytes of a large record that are not read yet
        self._tags: list[str] = []
        self._numbers: dict[str, int] = {}
        self._shapes: dict[bytes, int] = {}  # the bytes between a step and a value → place of the tag, -1 for no scalar

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
        """Read the complete records of a buffer and return what is left of it."""
        starts, lengths, position = array("q"), array("q"), 0
        size, unpack = len(buffer), struct.Struct("<Q").unpack_from
        while size - position >= HEADER_BYTES:
            (length,) = unpack(buffer, position)
            if length > MAX_SCALAR_BYTES and not (length < MAX_RECORD_BYTES and _is_header(buffer, position)):
                self._use(buffer, starts, lengths)
                starts, lengths = array("q"), array("q")
                following = self._resynchronise(buffer, position + 1)
                self._problem(position, "a record is damaged; reading goes on at the next whole one")
                position = following
                continue
            end = position + HEADER_BYTES + length + FOOTER_BYTES
            if end > size and length > MAX_SCALAR_BYTES:  # it is stepped over, however much of it is still to come
                self._to_skip, position = end - size, size
                break
            if end > size:
                break
            if length <= MAX_SCALAR_BYTES:
                starts.append(position)
                lengths.append(length)
            position = end
        self._use(buffer, starts, lengths)
        self._offset += position
        return buffer[position:]

    def _resynchronise(self, buffer: bytes, begin: int) -> int:
        """Return the position of the next header whose checksum is right, or of the last bytes that may begin one."""
        windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(buffer, np.uint8), HEADER_BYTES)[begin:]
        if not len(windows):
            return begin
        # A length fits into four bytes: that leaves few places whose checksum must be computed.
        likely = np.flatnonzero(~windows[:, 4:8].any(axis=1))
        right = masked_crc32c(windows[likely][:, :8]) == np.ascontiguousarray(windows[likely][:, 8:]).view("<u4")[:, 0]
        found = likely[right]
        return begin + (int(found[0]) if len(found) else len(windows))

    def _use(self, buffer: bytes, starts: "array[int]", lengths: "array[int]") -> None:
        """Verify the checksums of small records and take their scalars, all records of one length at once."""
        if not starts:
            return
        where, sizes = np.array(starts), np.array(lengths)
        found, others = _Scalars(len(where)), []
        for length in np.unique(sizes):
            places = np.flatnonzero(sizes == length)
            records = _gathered(buffer, where[places], int(length))
            is_whole = _are_whole(records)
            others += [(int(place), False) for place in places[~is_whole]]
            simple, records = places[is_whole], records[is_whole, HEADER_BYTES:-FOOTER_BYTES]
            others += [(int(place), True) for place in simple[self._take_simple(records, simple, found)]]
        self._take_others(buffer, starts, lengths, sorted(others), found)

    def _take_simple(
        self, events: "NDArray[np.uint8]", places: "NDArray[np.int64]", found: "_Scalars"
    ) -> "NDArray[np.bool_]":
        """Take the usual scalars among Events of one length and return which of them are something else.

        The usual one is ``09 time 10 step``, and a summary with one value whose float stands last. What lies between
        the step and the float is the same in all Events of a tag; `_parse` learns it from the first.
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
            _, first, which = np.unique(_hashes(shapes), return_index=True, return_inverse=True)
            tags = [self._tag(chosen[place].tobytes(), shapes[place].tobytes()) for place in first.tolist()]
            is_tagged = np.array([tag >= 0 for tag in tags])[which] & (shapes == shapes[first][which]).all(axis=1)
            kept = rows[is_tagged]
            found.put(
                places[kept],
                np.array(tags)[which][is_tagged],
                _steps(chosen[is_tagged, 10:middle]),
                np.ascontiguousarray(events[kept, -4:]).view("<f4")[:, 0],
                np.ascontiguousarray(events[kept, 1:9]).view("<f8")[:, 0],
            )
            is_other[kept] = False
        return is_other

    def _tag(self, event: bytes, shape: bytes) -> int:
        """Return the number of the tag of a simple scalar, or -1 where an Event is something else."""
        if shape not in self._shapes:
            if len(self._shapes) >= MAX_SHAPES:
                return -1
            self._shapes[shape] = -1
            try:
                tag = _simple_tag(event, shape)
            except (ValueError, TypeError, OverflowError):
                tag = None  # it is reported when the record is read by itself
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
        found: "_Scalars",
    ) -> None:
        """Take the records that are not simple scalars one by one, and add all scalars in the order of the file."""
        done = 0
        for place, is_whole in others:
            if not is_whole:
                self._problem(starts[place], "a record's checksum is wrong")
                continue
            begin = starts[place] + HEADER_BYTES
            try:
                scalars = list(_scalars(buffer[begin : begin + lengths[place]]))
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


class _Scalars:
    """The simple scalars of a buffer, each at the place of its record; a tag of -1 stands for no scalar."""

    def __init__(self, count: int) -> None:
        self._tags = np.full(count, -1)
        self._steps = np.zeros(count, np.int64)
        self._values = np.zeros(count)
        self._times = np.zeros(count)

    def put(
        self,
        places: "NDArray[np.int64] | int",
        tags: "NDArray[np.int64] | int",
        steps: "NDArray[np.int64] | int",
        values: "NDArray[np.float32] | float",
        times: "NDArray[np.float64] | float",
    ) -> None:
        self._tags[places], self._steps[places] = tags, steps
        self._values[places], self._times[places] = values, times

    def between(
        self, begin: int, end: int
    ) -> tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.float64]", "NDArray[np.float64]"]:
        """Return tags, steps, values and times of the scalars among some records."""
        kept = begin + np.flatnonzero(self._tags[begin:end] >= 0)
        return self._tags[kept], self._steps[kept], self._values[kept], self._times[kept]


def _gathered(buffer: bytes, starts: "NDArray[np.int64]", length: int) -> "NDArray[np.uint8]":
    """Return the records of one length, header and footer included, shape ``(records, bytes)``."""
    windows = np.lib.stride_tricks.sliding_window_view(
        np.frombuffer(buffer, np.uint8), HEADER_BYTES + length + FOOTER_BYTES
    )
    return windows[starts]


def _are_whole(records: "NDArray[np.uint8]") -> "NDArray[np.bool_]":
    """Tell which records' two checksums are right."""
    stored = np.ascontiguousarray(records[:, -FOOTER_BYTES:]).view("<u4")[:, 0]
    headers = np.ascontiguousarray(records[:, 8:HEADER_BYTES]).view("<u4")[:, 0]
    is_whole: NDArray[np.bool_] = (masked_crc32c(records[:, HEADER_BYTES:-FOOTER_BYTES]) == stored) & (
        masked_crc32c(records[:, :8]) == headers
    )
    return is_whole


def _hashes(rows: "NDArray[np.uint8]") -> "NDArray[np.uint64]":
    """Return a number for each row of bytes, equal for equal rows; the bytes decide, where two rows share one."""
    hashes = np.zeros(len(rows), np.uint64)
    for column in np.ascontiguousarray(rows.T):
        hashes = hashes * np.uint64(HASH_FACTOR) + column
    return hashes


def _steps(written: "NDArray[np.uint8]") -> "NDArray[np.int64]":
    """Return the signed numbers that varints of one length spell."""
    steps = np.zeros(len(written), np.uint64)
    for place, column in enumerate(written.T):
        steps |= (column & 0x7F).astype(np.uint64) << np.uint64(7 * place)
    return steps.view(np.int64)


def _scalars(event: bytes) -> Iterator[tuple[str, int, float, float | None]]:
    """Yield tag, step, value and time of the scalars of any Event."""
    time, step, summary = None, 0, b""
    for number, value in fields(event):
        if number == 1 and isinstance(value, float):
            time = value
        elif number == 2 and isinstance(value, int):  # noqa: PLR2004 - Event.step
            step = signed(value)
        elif number == 5 and isinstance(value, bytes):  # noqa: PLR2004 - Event.summary
            summary = value
    for number, value in fields(summary):
        if number == 1 and isinstance(value, bytes):
            tag, scalar, _ = _scalar(value)
            if tag and scalar is not None:
                yield tag, step, scalar, time


def _simple_tag(event: bytes, shape: bytes) -> str | None:
    """Return the tag of an Event with one simple scalar whose float stands last, else None."""
    content = list(fields(event))
    summary = content[-1][1]
    if [number for number, _ in content] != [1, 2, 5] or not isinstance(summary, bytes):
        return None
    values = [value for number, value in fields(summary) if number == 1 and isinstance(value, bytes)]
    if len(values) != 1 or not shape.endswith(b"\x15"):
        return None
    tag, scalar, is_simple = _scalar(values[0])
    stands_last = is_simple and scalar is not None and struct.pack("<f", scalar) == event[-4:]
    return tag if tag and stands_last else None


def _scalar(value: bytes) -> tuple[str, float | None, bool]:
    """Return a Summary.Value's tag and number, and whether it is a simple float."""
    tag, scalar, is_simple = "", None, False
    for number, content in fields(value):
        if number == 1 and isinstance(content, bytes) and len(content) <= MAX_TAG_BYTES:
            tag = content.decode(errors="replace")
        elif number == 2 and isinstance(content, float):  # noqa: PLR2004 - Value.simple_value
            scalar, is_simple = content, True
        elif number == 8 and isinstance(content, bytes):  # noqa: PLR2004 - Value.tensor
            scalar, is_simple = _tensor(content), False
    return tag, scalar, is_simple


def _tensor(tensor: bytes) -> float | None:
    """Return the one number of a TensorProto; None where it holds none, or more."""
    dtype, found = 0, None
    for number, content in fields(tensor):
        if number == 1 and isinstance(content, int):
            dtype = content
        elif number == 4 and isinstance(content, bytes) and dtype in DTYPES:  # noqa: PLR2004 - tensor_content
            is_one = len(content) == np.dtype(DTYPES[dtype]).itemsize
            found = float(np.frombuffer(content, DTYPES[dtype])[0]) if is_one else None
        elif number in (5, 6):  # float_val, double_val: packed, or one number by itself
            if isinstance(content, float):
                found = content
            elif isinstance(content, bytes):
                width = 4 if number == 5 else 8  # noqa: PLR2004 - float_val
                if len(content) == width:
                    (found,) = struct.unpack("<f" if width == 4 else "<d", content)  # noqa: PLR2004 - bytes
    return found


def _is_header(buffer: bytes, position: int) -> bool:
    """Tell whether a record's length and its checksum agree."""
    header = np.frombuffer(buffer[position : position + HEADER_BYTES], np.uint8)
    if len(header) < HEADER_BYTES:
        return False
    return int(masked_crc32c(header[None, :8])[0]) == int.from_bytes(header[8:].tobytes(), "little")
