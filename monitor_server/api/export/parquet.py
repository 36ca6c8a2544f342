"""Writes runs as a Parquet file: a row for each step, and a column for each signal."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from monitor_server.api.export.run_pages import EXPORT_VERSION, ExportedRun, begin_run, step_pages
from monitor_server.errors import InvalidField, MissingLibrary
from monitor_server.store.database import Store
from monitor_server.store.repositories.steps import Step
from monitor_server.text_safety.printable import printable

__all__ = ["export_parquet"]

# A Parquet file has a column for each signal of any of its runs, in each group of rows. Its writer holds one group, and
# a description of all columns of all groups.
MAX_COLUMNS = 2_000
VALUES_PER_GROUP = 250_000  # observed values: about 20 MB as Python objects
CELLS_PER_GROUP = 2_000_000  # observed or not: 16 MB
RUNS_PER_GROUP = 2_000  # each takes a millisecond or more to read, and a client waits for the next bytes
MAX_HEADING_BYTES = 16 * 1024 * 1024  # the file's head contains the heading of each run, mostly its configuration
# The fixed columns of Parquet have this prefix; the other columns are signals under their own names.
PREFIX = "rlvitals."


def export_parquet(store: Store, run_ids: Sequence[str]) -> Iterator[bytes]:
    """Yield the bytes of a Parquet file with a row for each step, and a column for each signal of any of the runs.

    Raises:
        MissingLibrary: If pyarrow is not installed.
        InvalidField: If the signals or the configurations of the runs are too many for one file, or if a signal has the
            name of a fixed column.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise MissingLibrary(
            "Parquet needs pyarrow on the collector: pip install 'rlvitals[parquet]', or export as jsonl"
        ) from error
    names, runs = _columns_and_runs(store, run_ids)
    fixed = {
        "run": pa.string(), "project": pa.string(), "attempt": pa.int64(), "step": pa.int64(), "time": pa.float64(),
        "policy_version": pa.int64(), "data_version": pa.string(), "acknowledged": pa.list_(pa.string()),
    }  # fmt: skip
    schema = pa.schema(
        [*((PREFIX + name, kind) for name, kind in fixed.items()), *((name, pa.float64()) for name in sorted(names))],
        metadata={
            "rlvitals_export": json.dumps(
                {"version": EXPORT_VERSION, "runs": {str(run.heading["run"]): dict(run.heading) for run in runs}}
            )
        },
    )
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema) as writer:
        yield sink.take()
        for rows in _row_groups(store, runs, columns=len(schema)):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            yield sink.take()
    yield sink.take()


def _columns_and_runs(store: Store, run_ids: Sequence[str]) -> tuple[set[str], list[ExportedRun]]:
    """Return the signals of some runs, and the runs as they were when their signals were read."""
    names: set[str] = set()
    runs: list[ExportedRun] = []
    size = 0
    for run_id in run_ids:
        with store.read() as reading:
            run = begin_run(reading, run_id)
            names.update(reading.steps.signals(run_id))
        own = next((name for name in sorted(names) if name.startswith(PREFIX)), None)
        if own is not None:
            raise InvalidField(
                f"a Parquet file must have no signal whose name begins with {PREFIX}, as its own columns do, got "
                f"{printable(own, longest=60)!r}; export with format=jsonl"
            )
        if run is not None:
            runs.append(run)
            size += len(json.dumps(run.heading))
        if len(names) > MAX_COLUMNS or size > MAX_HEADING_BYTES:
            raise InvalidField(
                f"a Parquet file must have at most {MAX_COLUMNS} signals, and {MAX_HEADING_BYTES} bytes of "
                "configurations, of all its runs together; export them with format=jsonl, or one run at a time"
            )
    return names, runs


def _row_groups(store: Store, runs: Sequence[ExportedRun], *, columns: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of some runs in groups of bounded size, which small runs share."""
    rows: list[dict[str, Any]] = []
    values = 0
    for number, run in enumerate(runs):
        if rows and number % RUNS_PER_GROUP == 0:
            yield rows
            rows, values = [], 0
        for attempt, steps in step_pages(store, run):
            for step in steps:
                if values >= VALUES_PER_GROUP or len(rows) * columns >= CELLS_PER_GROUP:
                    yield rows
                    rows, values = [], 0
                rows.append(_fixed_fields(run, step, attempt) | dict(step.signals))
                values += len(step.signals)
    if rows:
        yield rows


class _Sink:
    """A file that keeps the written bytes until they are taken."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        self._parts.append(bytes(data))
        self._position += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


def _fixed_fields(run: ExportedRun, step: Step, attempt: int) -> dict[str, Any]:
    kinds = [each.kind for each in run.acknowledgements.get((step.attempt, step.step), ())]
    fields = {
        "run": run.heading["run"], "project": run.heading["project"], "attempt": attempt, "step": step.step,
        "time": step.time, "policy_version": step.policy_version, "data_version": step.data_version,
        "acknowledged": kinds,
    }  # fmt: skip
    return {PREFIX + name: value for name, value in fields.items()}
