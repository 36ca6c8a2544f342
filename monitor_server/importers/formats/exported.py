"""Files that `rlvitals export` wrote: steps as a collector recorded them, one or many runs in a file."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from monitor_server.importers.protocol import Log, LogError, ReadReport, RecordedRow, Row
from monitor_server.importers.source import lines

__all__ = ["EXPORT_KEY", "ExportedJsonLines", "ExportedParquet"]

EXPORT_KEY = "rlvitals_export"
PREFIX = "rlvitals."
BATCH_ROWS = 1024


class ExportedJsonLines:
    """JSON lines: a line with `EXPORT_KEY` begins a run, the lines that follow are its steps and what was found."""

    name = "rlvitals export"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell whether the first line begins a run."""
        del path
        return head.lstrip().startswith(b'{"' + EXPORT_KEY.encode() + b'"')

    def logs(self, path: Path) -> Iterator[Log]:
        """Yield the runs of the file."""
        place = 0
        for _, line in lines(path, ReadReport()):
            if line.startswith(b'{"' + EXPORT_KEY.encode() + b'"'):
                heading = _object(line) or {}
                read = partial(_read_lines, path, place)
                yield Log(name=str(heading.get("run", path.stem)), path=path, format=self.name, read=read)
                place += 1


def _read_lines(path: Path, wanted: int, report: ReadReport) -> Iterator[Row]:
    """Yield the steps of the run in a place of the file."""
    place = -1
    for number, line in lines(path, report):
        row = _object(line)
        if row is None:
            report.add_problem(path, f"line {number}", "it is no JSON object")
        elif EXPORT_KEY in row:
            place += 1
            if place > wanted:
                return
        elif place == wanted and isinstance(row.get("signals"), dict):
            kinds = [str(each["kind"]) for each in row.get("acknowledged", []) if isinstance(each, dict)]
            yield _recorded(row, row["signals"], kinds)


class ExportedParquet:
    """A Parquet file with the metadata `EXPORT_KEY`; every column without a prefix is a signal."""

    name = "rlvitals export (Parquet)"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell whether the file's metadata name the export."""
        if not head.startswith(b"PAR1"):
            return False
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - FOOTER_BYTES))
                return EXPORT_KEY.encode() in file.read()
        except OSError:
            return False

    def logs(self, path: Path) -> Iterator[Log]:
        """Yield the runs of the file."""
        for name in _parquet_runs(path):
            yield Log(name=name, path=path, format=self.name, read=partial(_read_parquet, path, name))


# The footer of a file with a few thousand columns and row groups is some megabytes.
FOOTER_BYTES = 64 << 20


def _parquet_runs(path: Path) -> list[str]:
    with _parquet_file(path) as file:
        try:
            return list(json.loads(file.schema_arrow.metadata[EXPORT_KEY.encode()])["runs"])
        except (KeyError, TypeError, ValueError) as error:
            raise LogError(f"{path} must be a file of `rlvitals export`: its metadata cannot be read") from error


def _read_parquet(path: Path, run: str, report: ReadReport) -> Iterator[Row]:
    with _parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            report.bytes_read += batch.nbytes
            for row in batch.to_pylist():
                if row[f"{PREFIX}run"] == run:
                    signals = {
                        name: value for name, value in row.items() if value is not None and not name.startswith(PREFIX)
                    }
                    fields = {name.removeprefix(PREFIX): row[name] for name in row if name.startswith(PREFIX)}
                    yield _recorded(fields, signals, fields["acknowledged"] or [])


def _parquet_file(path: Path) -> Any:  # noqa: ANN401 - pyarrow is an extra
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise LogError(f"{path} is a Parquet file: reading it needs pip install 'rlvitals[parquet]'") from error
    try:
        return parquet.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LogError(f"{path} must be a readable Parquet file: {error}") from error


def _recorded(fields: Mapping[str, Any], signals: Mapping[str, Any], kinds: list[str]) -> RecordedRow:
    return RecordedRow(
        {name: float(value) for name, value in signals.items()},  # "NaN" and "Infinity" are spelled out in JSON
        step=int(fields["step"]),
        attempt=int(fields["attempt"]),
        time=fields.get("time"),
        data_version=fields.get("data_version"),
        acknowledged=tuple(kinds),
    )


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
