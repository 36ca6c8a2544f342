"""MLflow's stores: a folder of text files for each run, or one SQLite database for all experiments."""

import math
import os
import re
import sys
from array import array
from collections.abc import Iterator
from functools import partial
from heapq import merge
from itertools import islice
from pathlib import Path

from monitor_server.configuration_files.reading import UnusableFileError, read_bounded
from monitor_server.importers.corpus import folder_name
from monitor_server.importers.formats.columns import Columns
from monitor_server.importers.formats.sqlite import MAGIC, open_read_only, tables
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog, Row
from monitor_server.importers.source import lines

__all__ = ["MlflowDatabase", "is_deleted", "is_mlflow_run", "mlflow_run"]

MAX_METRICS = 10_000
# MLflow samples the load of the machine under these keys, and the step of such a metric is the count of its samples.
SYSTEM = "system/"
MAX_TIME = 1 << 63
_DELETED = re.compile(rb"^lifecycle_stage:\s*['\"]?deleted\b", re.MULTILINE)


class MlflowDatabase:
    """The tables ``runs`` and ``metrics`` of ``mlflow.db``."""

    name = "MLflow database"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the file is a SQLite database with MLflow's tables."""
        if not head.startswith(MAGIC):
            return False
        found = tables(path)
        return {"key", "value", "step", "is_nan", "run_uuid"} <= found.get("metrics", set()) and "runs" in found

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield every run whose trainer logged a metric and that was not deleted."""
        query = (
            "SELECT run_uuid, name FROM runs WHERE lifecycle_stage IS NOT 'deleted' AND run_uuid IN "
            "(SELECT run_uuid FROM metrics WHERE key NOT GLOB ?) ORDER BY start_time"
        )
        with open_read_only(path) as connection:
            found = connection.execute(query, (f"{SYSTEM}*",)).fetchall()
        for run, name in found:
            yield RecordedLog(name=str(name or run), path=path, format=self.name, read=partial(_rows, path, run))


def _rows(path: Path, run: str, report: ReadReport) -> Iterator[Row]:
    columns = Columns()
    query = (
        "SELECT key, value, step, is_nan, timestamp FROM metrics "
        "WHERE run_uuid = ? AND key NOT GLOB ? ORDER BY timestamp, step"
    )
    with open_read_only(path) as connection:
        for key, value, step, is_nan, time in connection.execute(query, (run, f"{SYSTEM}*")):
            report.bytes_read += 32
            if isinstance(value, int | float) and isinstance(step, int):
                columns.add(str(key), step, _value(value, is_nan=bool(is_nan)), _seconds(time))
    yield from columns.rows()


def _value(value: float, *, is_nan: bool) -> float:
    """Return the logged number: MLflow writes NaN as 0 with a flag, and infinity as the largest double."""
    if is_nan:
        return math.nan
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else float(value)


def is_mlflow_run(folder: Path) -> bool:
    """Return whether a folder is a run of MLflow's file store."""
    return (folder / "meta.yaml").is_file() and (folder / "metrics").is_dir()


def is_deleted(folder: Path) -> bool:
    """Return whether a folder is a run that was deleted: the file store keeps it until it is collected."""
    try:
        return _DELETED.search(read_bounded(folder / "meta.yaml")) is not None
    except UnusableFileError:
        return False


def mlflow_run(folder: Path) -> RecordedLog:
    """Return the run in a folder of the file store: ``metrics/KEY`` has lines of time, value and step."""
    return RecordedLog(
        name=_run_name(folder), path=folder, format="MLflow run folder", read=lambda report: _file_rows(folder, report)
    )


def _file_rows(folder: Path, report: ReadReport) -> Iterator[Row]:
    paths = _metric_files(folder / "metrics")
    keys = [path.relative_to(folder / "metrics").as_posix() for path in paths]
    columns = Columns()
    for _, _, place, step, value, time in merge(*(_numbers(place, path, report) for place, path in enumerate(paths))):
        columns.add(keys[place], step, value, _seconds(time))
    yield from columns.rows()


def _numbers(place: int, path: Path, report: ReadReport) -> Iterator[tuple[int, int, int, int, float, int]]:
    """Return the numbers of a metric in their order, so that those of all metrics can be merged as the run logged them.

    Each is (newest time so far, times that the step went back, place, step, value, time). The first two are the order:
    a clock may go back within a file, and a program may write the same time everywhere.
    """
    times_and_steps, values = array("q"), array("d")
    for number, line in lines(path, report):
        try:
            time, value, step, *_ = line.split()
            parsed = float(value)
            times_and_steps += array("q", (int(time), int(step)))
            values.append(parsed)
        except (ValueError, OverflowError):
            report.add_problem(path, f"line {number}", "it is no time, value and step")
    return _in_order(place, times_and_steps, values)


def _in_order(
    place: int, times_and_steps: "array[int]", values: "array[float]"
) -> Iterator[tuple[int, int, int, int, float, int]]:
    newest, before, times_back = -MAX_TIME, -MAX_TIME, 0
    numbers = iter(times_and_steps)
    for time, step, value in zip(numbers, numbers, values, strict=False):
        newest, times_back, before = max(newest, time), times_back + (step < before), step
        yield newest, times_back, place, step, value, time


def _metric_files(folder: Path) -> list[Path]:
    """Return the files of the trainer's metrics, at most 10,000; a key with slashes is a path of folders."""
    found: list[Path] = []
    try:
        for within, _, names in os.walk(folder, onerror=_raise):
            paths = (Path(within, name) for name in names)
            found += islice((path for path in paths if path.is_file() and not path.is_symlink()), MAX_METRICS)
            if len(found) >= MAX_METRICS:
                break
    except OSError as error:
        raise LogError(f"{folder} must be a folder of metrics that may be read: {error}") from error
    kept = (path for path in found if not path.relative_to(folder).as_posix().startswith(SYSTEM))
    return sorted(kept)[:MAX_METRICS]


def _raise(error: OSError) -> None:
    raise error


def _run_name(folder: Path) -> str:
    tag = folder / "tags" / "mlflow.runName"
    try:
        return read_bounded(tag).decode(errors="replace")[:200].strip() or folder_name(folder)
    except UnusableFileError:
        return folder_name(folder)


def _seconds(milliseconds: object) -> float | None:
    return milliseconds / 1000.0 if isinstance(milliseconds, int | float) else None
