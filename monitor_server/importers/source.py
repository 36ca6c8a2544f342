"""Opens log files: decompressed, decoded, cut into lines, with bounded memory and time for any content."""

import bz2
import codecs
import gzip
import lzma
import re
import zlib
from collections.abc import Iterator
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import NamedTuple

from monitor_server.importers.protocol import LogError, ReadReport

__all__ = [
    "HEAD_BYTES",
    "MAX_DOCUMENT_BYTES",
    "Position",
    "chunks",
    "document",
    "head",
    "is_tar",
    "is_text",
    "lines",
    "lines_from",
    "require_plausible_size",
]

HEAD_BYTES = 1 << 16
_CONTROLS = re.compile(r"[\x01-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
CHUNK_BYTES = 1 << 20
# The longest line, JSON object or record that is read; a logged step is a few kilobytes.
MAX_LINE_BYTES = 16 << 20
# Formats that must be parsed as a whole (notebooks, JSON columns) are refused above this.
MAX_DOCUMENT_BYTES = 64 << 20
# A compressed file is refused once it exceeds this size and this ratio. Logs shrink 5 to 100 times.
BOMB_BYTES = 256 << 20
BOMB_RATIO = 250

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Without a byte order mark, UTF-16 is known by its ASCII characters: the other byte of each is zero.
UTF16_PROBE_BYTES = 256
_PRINTED = frozenset(b"\t\n\r" + bytes(range(0x20, 0x7F)))


def head(path: Path, *, size: int = HEAD_BYTES) -> bytes:
    """Return the first bytes of a file, decompressed and as UTF-8; empty if they cannot be read."""
    read = b""
    try:
        for chunk in chunks(path, ReadReport(), size=size):
            read += chunk
            if len(read) >= size:
                break
    except OSError:
        return read
    return read[:size]


def is_text(beginning: bytes) -> bool:
    """Return whether a file begins as text does; a power cut or a truncation while it was written leaves NUL bytes."""
    if b"\x00" not in beginning:
        return bool(beginning)
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(beginning.replace(b"\x00", b""))
    except UnicodeDecodeError:
        return False
    return text.count("\n") > 0 and not is_tar(beginning) and _CONTROLS.search(text) is None


def is_tar(beginning: bytes) -> bool:
    """Return whether a file begins as a tar archive does."""
    return beginning[257:262] == b"ustar"


def chunks(path: Path, report: ReadReport, *, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield a file's bytes in pieces of ``size`` or more: decompressed, UTF-16 as UTF-8, without a byte order mark.

    The last piece may be smaller. The part after a damaged place of a compressed file is lost; this is reported.

    Raises:
        LogError: If the file cannot be opened, is not a regular file, or decompresses to far more than a log.
    """
    if not path.is_file():
        raise LogError(f"{path} must be a readable log: it is not a regular file")
    try:
        with path.open("rb") as raw, _decompress(raw) as stream:
            decoder = None
            first = True
            for piece in _join(_decompressed(raw, stream, path, report, size), size):
                if first:
                    first = False
                    encoding = _utf16(piece[:UTF16_PROBE_BYTES])
                    decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
                    piece = piece.removeprefix(codecs.BOM_UTF8)  # noqa: PLW2901 - the piece is the rest
                yield decoder.decode(piece).encode("utf-8", "replace") if decoder else piece
    except LogError:
        raise
    except OSError as error:
        raise LogError(f"{path} must be a readable log: {error}; repair it or take it out of the folder") from error


def _utf16(beginning: bytes) -> str | None:
    """Return the form of UTF-16 in which a text begins, or None if it begins in another encoding or is no text.

    PowerShell and some editors write it without a byte order mark.
    """
    if beginning.startswith(UTF16):
        return "utf-16"
    even, odd = beginning[::2], beginning[1::2]
    if len(odd) < 2:  # noqa: PLR2004 - one character proves nothing
        return None
    if not any(odd) and _PRINTED.issuperset(even):
        return "utf-16-le"
    return "utf-16-be" if not any(even) and _PRINTED.issuperset(odd) else None


def _decompressed(
    raw: BufferedReader, stream: BufferedIOBase, path: Path, report: ReadReport, size: int
) -> Iterator[bytes]:
    """Yield the decompressed bytes in pieces of at most ``size``, up to the end or to a damaged place."""
    while True:
        try:
            piece = stream.read1(size)  # read() would lose the data before a cut
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            if isinstance(error, OSError) and not (report.bytes_read and _ends_in_other_bytes(error)):
                raise
            report.add_problem(path, f"after {report.bytes_read} bytes", f"the compressed file ends: {error}")
            return
        if not piece:
            return
        report.bytes_read += len(piece)
        if stream is not raw:
            require_plausible_size(path, report.bytes_read, raw.tell())
        yield piece


def _ends_in_other_bytes(error: OSError) -> bool:
    """Return whether the data before an error is what was compressed; gzip checks it only at its end."""
    if isinstance(error, gzip.BadGzipFile):
        return str(error).startswith("Not a gzipped file")
    return error.errno is None  # of bz2, which checks each block before it returns it, and not of the disk


def _join(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Join small pieces: those of a compressed file have some KB, and readers search each with the rest before it.

    The bytes before an error are yielded before it is raised.
    """
    held: list[bytes] = []
    held_bytes = 0
    try:
        for piece in pieces:
            held.append(piece)
            held_bytes += len(piece)
            if held_bytes >= size:
                yield b"".join(held)
                held, held_bytes = [], 0
    except OSError:
        if held:
            yield b"".join(held)
        raise
    if held:
        yield b"".join(held)


def require_plausible_size(path: Path, size: int, stored: int) -> None:
    """Refuse a compressed file that was made to fill the memory or the time of its reader.

    Args:
        path: Its path.
        size: The bytes that were decompressed so far.
        stored: The bytes of the file from which they came.

    Raises:
        LogError: If it grows by far more than a log.
    """
    if size > max(BOMB_BYTES, BOMB_RATIO * stored):
        raise LogError(
            f"{path} must be a log: it decompresses to more than {BOMB_RATIO} times its size, as no log does"
        )


class Position(NamedTuple):
    """The beginning of a line: the number of lines and bytes before it, decompressed and as UTF-8."""

    line: int = 0
    offset: int = 0


BEGINNING = Position()


def lines(path: Path, report: ReadReport) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers, from 1, as `lines_from` reads them."""
    return ((position.line + 1, line) for position, line in lines_from(path, report))


def lines_from(path: Path, report: ReadReport, start: Position = BEGINNING) -> Iterator[tuple[Position, bytes]]:
    """Yield the lines of a file from a position on, with their positions; a carriage return ends a line as well.

    Progress bars rewrite one line for hours, so a file may have gigabytes between two line ends. A line longer than
    16 MiB is skipped. Empty lines are neither yielded nor counted. The part before the start is read, because it may be
    compressed, but it is not cut into lines. The last line of a growing log is left out while its end is missing,
    because a number may be cut in it; a row in braces has an end of its own.
    """
    parts: list[bytes] = []  # of the line that has not ended; a compressed file is read in pieces of some KB
    size, too_long = 0, False
    number, offset = start  # the position of the data that was not yielded yet
    before = offset
    for chunk in chunks(path, report):
        if before:
            passed, before = chunk[:before], max(0, before - len(chunk))
            chunk = chunk[len(passed) :]  # noqa: PLW2901 - the code below reads the rest of the chunk
        first, *others = chunk.replace(b"\r", b"\n").split(b"\n")
        parts.append(first)
        size += len(first)
        if others:
            for piece in (b"".join(parts), *others[:-1]):
                begin, offset = offset, offset + len(piece) + 1
                if too_long:  # the end of the skipped line
                    too_long = False
                elif piece:
                    yield Position(number, begin), piece
                    number += 1
            parts, size = [others[-1]], len(others[-1])
        if size > MAX_LINE_BYTES:
            if not too_long:
                number += 1
                report.add_problem(path, f"line {number}", f"it is longer than {MAX_LINE_BYTES >> 20} MiB")
            offset += size
            parts, size, too_long = [], 0, True
    last = b"" if too_long else b"".join(parts)
    if last and (last.endswith(b"}") or not report.is_growing):
        yield Position(number, offset), last


def document(path: Path, report: ReadReport) -> str:
    """Return a whole file as text, for formats that cannot be read in pieces.

    Raises:
        LogError: If it is larger than 64 MiB.
    """
    read: list[bytes] = []
    for chunk in chunks(path, report):
        read.append(chunk)
        if report.bytes_read > MAX_DOCUMENT_BYTES:
            raise LogError(
                f"{path} must be at most {MAX_DOCUMENT_BYTES >> 20} MiB, because this format is read as a whole: "
                "write it as JSON lines or CSV"
            )
    return b"".join(read).decode(errors="replace")


def _decompress(raw: BufferedReader) -> BufferedIOBase:
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)
    if magic.startswith(b"BZh"):
        return bz2.BZ2File(raw)
    if magic.startswith(b"\xfd7zXZ"):
        return lzma.LZMAFile(raw)
    return raw
