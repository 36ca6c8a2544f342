"""Parquet files, read with pyarrow (the extra `parquet`), a batch of rows at a time."""

from collections.abc import Iterator
from pathlib import Path

from monitor_server.importers.formats.json_lines import flat
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog, Row

__all__ = ["Parquet"]

BATCH_ROWS = 1024


class Parquet:
    """A table of rows, one for each step; nested columns get keys joined by slashes."""

    name = "Parquet"
    is_specific = False

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the file begins with Parquet's magic bytes."""
        del path
        return head.startswith(b"PAR1")

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the one run of the file."""
        yield RecordedLog(name=path.name, path=path, format=self.name, read=lambda report: _rows(path, report))


def _rows(path: Path, report: ReadReport) -> Iterator[Row]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise LogError(f"{path} is a Parquet file: reading it needs pip install 'rlvitals[parquet]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                report.bytes_read += batch.nbytes
                for row in batch.to_pylist():
                    yield flat({key: value for key, value in row.items() if value is not None})
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LogError(f"{path} must be a readable Parquet file: {error}") from error
