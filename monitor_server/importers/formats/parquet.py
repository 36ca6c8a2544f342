"""Parquet files, read with pyarrow (the extra `parquet`), a batch of rows at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from monitor_server.importers.formats.json_lines import flat
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog, Row
from monitor_server.importers.source import require_plausible_size

__all__ = ["Parquet", "batches", "open_parquet"]

BATCH_ROWS = 1024
# A column of lists with more values for each row is not read; the kinds of a step's alerts are fewer.
MAX_LIST_VALUES = 64
# A column of texts that are longer on average holds no numbers, and is not read.
MAX_TEXT_BYTES = 64
# The texts of our own exports are read at any length, such as the name of a curriculum.
OWN_PREFIX = "rlvitals."
MAX_TEXT_OVERHEAD = 1 << 16  # the headers of the pages, and the long values of a short column
# Each value of a dictionary may be repeated in every row of a batch, so that large dictionaries have short batches.
BATCH_TEXT_BYTES = 64 << 20
MAX_COLUMN_TEXT_BYTES = 256 << 20


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
    with open_parquet(path) as file:
        import pyarrow as pa  # noqa: PLC0415 - an extra, which has opened the file

        try:
            for batch in batches(file, path, report):
                for row in batch.to_pylist():
                    yield flat({key: value for key, value in row.items() if value is not None})
        except LogError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise LogError(f"{path} must be a readable Parquet file: {error}") from error


def open_parquet(path: Path) -> Any:  # noqa: ANN401 - pyarrow is an extra
    """Open a file; it is a context manager.

    Raises:
        LogError: If pyarrow is missing, or the file is damaged.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise LogError(f"{path} is a Parquet file: reading it needs pip install 'rlvitals[parquet]'") from error
    try:
        return parquet.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LogError(f"{path} must be a readable Parquet file: {error}") from error


def batches(
    file: Any,  # noqa: ANN401 - pyarrow is an extra
    path: Path,
    report: ReadReport,
    row_groups: Sequence[int] | None = None,
) -> Iterator[Any]:
    """Yield the rows of a file in batches, with the columns that may hold numbers of steps.

    A file of a kilobyte can describe a list of a billion numbers, or a text of gigabytes in every row. Such columns
    are left out, and a file whose other columns are far larger than itself is refused.

    Raises:
        LogError: If the file grows too much.
        ArrowException: If it is damaged, or one of the errors of files.
    """
    columns, rows = _readable(file.metadata)
    groups = (file.metadata.row_group(place) for place in range(file.metadata.num_row_groups))
    size = path.stat().st_size
    require_plausible_size(path, sum(group.total_byte_size for group in groups), size)
    for batch in file.iter_batches(batch_size=rows, row_groups=row_groups, columns=columns):
        report.bytes_read += batch.nbytes
        require_plausible_size(path, report.bytes_read, size)
        yield batch


def _readable(metadata: Any) -> tuple[list[str], int]:  # noqa: ANN401 - pyarrow is an extra
    """Return the paths of the columns that are read, and the number of rows in a batch."""
    left_out, kept = [], []
    largest = 1
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        is_text, is_list = column.physical_type == "BYTE_ARRAY", column.max_repetition_level > 0
        chunks = [(group.column(place), group.num_rows) for group in groups] if is_text or is_list else []
        is_free = is_text and not column.path.startswith(OWN_PREFIX)
        text = max((chunk.total_uncompressed_size for chunk, _ in chunks), default=0) if is_text else 0
        if text > MAX_COLUMN_TEXT_BYTES or any(
            chunk.num_values > MAX_LIST_VALUES * rows
            or (is_free and chunk.total_uncompressed_size > MAX_TEXT_BYTES * chunk.num_values + MAX_TEXT_OVERHEAD)
            for chunk, rows in chunks
        ):
            left_out.append(column.path)
        else:
            kept.append(column.path)
            largest = max(largest, text)
    # The reader takes a path as the beginning of longer paths, too.
    kept = [path for path in kept if not any(other.startswith(f"{path}.") for other in left_out)]
    return kept, max(1, min(BATCH_ROWS, BATCH_TEXT_BYTES // largest))
