"""TensorBoard event files: TFRecord framing around Event messages, read without TensorFlow.

A record is ``length (8 bytes) · CRC of the length (4) · Event · CRC of the Event (4)``, all little-endian. Every
scalar's checksum is verified, so a flipped bit is reported and never read as a value.
"""

import struct
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from monitor_server.importers.columns import Columns
from monitor_server.importers.formats.crc32c import masked_crc32c
from monitor_server.importers.formats.protobuf import fields, signed, varint
from monitor_server.importers.protocol import Log, ReadReport, Row
from monitor_server.importers.source import chunks

__all__ = ["EventFile", "event_files"]

HEADER_BYTES, FOOTER_BYTES = 12, 4
# Events that hold scalars are far smaller; larger ones (histograms, images, graphs) are stepped over.
MAX_SCALAR_BYTES = 2048
MAX_RECORD_BYTES = 1 << 32
READ_BYTES = 4 << 20
MAX_TAG_BYTES = 1024
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
        self._shapes: dict[bytes, str] = {}  # the bytes between a step and a value → tag, for simple scalars
        self._steps: dict[bytes, int] = {}

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
        """Verify the checksums of small records and take their scalars."""
        if not starts:
            return
        bad = self._damaged(buffer, np.array(starts), np.array(lengths))
        for place, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            if place in bad:
                self._problem(start, "a record's checksum is wrong")
                continue
            begin = start + HEADER_BYTES
            try:
                self._take(buffer, begin, begin + length)
            except (ValueError, TypeError, OverflowError) as error:
                self._problem(start, f"a record is no Event: {error}")

    def _damaged(self, buffer: bytes, starts: "NDArray[np.int64]", lengths: "NDArray[np.int64]") -> set[int]:
        whole = np.frombuffer(buffer, np.uint8)
        bad: set[int] = set()
        for length in np.unique(lengths):
            places = np.flatnonzero(lengths == length)
            record = np.arange(HEADER_BYTES + length + FOOTER_BYTES)
            taken = whole[starts[places][:, None] + record]
            stored = np.ascontiguousarray(taken[:, -FOOTER_BYTES:]).view("<u4")[:, 0]
            headers = np.ascontiguousarray(taken[:, 8:HEADER_BYTES]).view("<u4")[:, 0]
            wrong = masked_crc32c(taken[:, HEADER_BYTES:-FOOTER_BYTES]) != stored
            wrong |= masked_crc32c(taken[:, :8]) != headers
            bad.update(places[wrong].tolist())
        return bad

    def _take(self, buffer: bytes, begin: int, end: int) -> None:
        # The usual scalar: 09 wall_time, 10 step, and one value whose float stands last.
        if end - begin > 16 and buffer[begin] == 0x09 and buffer[begin + 9] == 0x10:  # noqa: PLR2004 - field keys
            place = begin + 10
            while buffer[place] & 0x80 and place < end:
                place += 1
            tag = self._shapes.get(buffer[place + 1 : end - 4])
            if tag is not None:
                written = buffer[begin + 10 : place + 1]
                step = self._steps.get(written)
                if step is None:
                    if len(self._steps) > 4096:  # noqa: PLR2004 - steps repeat in neighbouring records
                        self._steps.clear()
                    step = self._steps[written] = signed(varint(written, 0)[0])
                (value,) = struct.unpack_from("<f", buffer, end - 4)
                (time,) = struct.unpack_from("<d", buffer, begin + 1)
                self._columns.add(tag, step, value, time)
                return
        self._parse(buffer[begin:end])

    def _parse(self, event: bytes) -> None:
        """Take the scalars of any Event, and remember the shape of a simple one."""
        time, step, summary = None, 0, b""
        for number, value in fields(event):
            if number == 1 and isinstance(value, float):
                time = value
            elif number == 2 and isinstance(value, int):  # noqa: PLR2004 - Event.step
                step = signed(value)
            elif number == 5 and isinstance(value, bytes):  # noqa: PLR2004 - Event.summary
                summary = value
        values = [value for number, value in fields(summary) if number == 1 and isinstance(value, bytes)]
        for value in values:
            tag, scalar, is_simple = _scalar(value)
            if not tag or scalar is None:
                continue
            self._columns.add(tag, step, scalar, time)
            if is_simple and len(values) == 1 and event[0] == 0x09 and event[9] == 0x10:  # noqa: PLR2004 - field keys
                _, place = varint(event, 10)
                if event[place:-4].endswith(b"\x15") and len(self._shapes) < 65536:  # noqa: PLR2004 - bounded
                    self._shapes[event[place:-4]] = tag

    def _problem(self, position: int, message: str) -> None:
        self._report.add_problem(self._path, f"byte {self._offset + position}", message)


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
