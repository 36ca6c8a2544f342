"""Trackio's databases: one SQLite file for each project, one row of JSON for each logged step."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from monitor_server.importers.formats.json_lines import flat
from monitor_server.importers.formats.json_text import read_json
from monitor_server.importers.formats.sqlite import MAGIC, open_read_only, tables
from monitor_server.importers.protocol import ReadReport, RecordedLog, Row
from monitor_server.importers.signal_names import CALLS
from monitor_server.importers.source import MAX_LINE_BYTES

__all__ = ["TrackioDatabase"]


class TrackioDatabase:
    """The table ``metrics`` with one JSON object in each row, as trackio keeps it in ``TRACKIO_DIR``."""

    name = "Trackio database"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the file is a SQLite database with Trackio's table."""
        return head.startswith(MAGIC) and {"run_name", "step", "metrics"} <= tables(path).get("metrics", set())

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield every run of the project, in the order of their beginnings; newer versions let runs share a name."""
        key = "run_id" if "run_id" in tables(path).get("metrics", set()) else "run_name"
        with open_read_only(path) as connection:
            query = f"SELECT run_name, {key}, MIN(rowid) FROM metrics GROUP BY {key} ORDER BY 3"  # noqa: S608 - ours
            found = connection.execute(query).fetchall()
        for name, run, _ in found:
            yield RecordedLog(name=str(name), path=path, format=self.name, read=partial(_rows, path, key, run))


def _rows(path: Path, key: str, run: object, report: ReadReport) -> Iterator[Row]:
    with open_read_only(path) as connection:
        query = (  # the name of the column is ours
            "SELECT rowid, step, timestamp, length(CAST(metrics AS BLOB)), "  # noqa: S608
            "CASE WHEN length(CAST(metrics AS BLOB)) <= ? THEN metrics END "
            f"FROM metrics WHERE {key} IS ? ORDER BY rowid"
        )
        for number, step, time, size, content in connection.execute(query, (MAX_LINE_BYTES, run)):
            report.bytes_read += size or 0
            if size is not None and size > MAX_LINE_BYTES:
                report.add_problem(path, f"row {number} of metrics", f"it is longer than {MAX_LINE_BYTES >> 20} MiB")
                continue
            try:
                row = read_json(content)
            except (ValueError, TypeError, RecursionError) as error:
                report.add_problem(path, f"row {number} of metrics", f"it is no JSON: {error}")
                continue
            if isinstance(row, dict):
                # Trackio counts calls of log() unless it is given a step; a trainer may log its own step as a number.
                yield {**flat(row), CALLS: step, **_timestamp(time)}


def _timestamp(text: object) -> dict[str, float]:
    try:
        return {"_timestamp": datetime.fromisoformat(str(text)).timestamp()}
    except (ValueError, OverflowError):
        return {}
