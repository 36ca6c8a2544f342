"""Writes runs as JSON lines or Parquet, which `rlvitals check` and `replay` read; `docs/export.md` describes both.

One page of steps is read and written at a time, each on a snapshot of its own, so that memory does not grow with the
run and no long transaction holds the database. If a run is deleted or reset meanwhile, its file ends with an error.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monitor_server.api.schemas import alert_item
from monitor_server.errors import InvalidField, MissingLibrary, Unavailable, UnknownRun
from monitor_server.store.database import Store
from monitor_server.store.encoding.stored_json import read_object
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import StoredAcknowledgement
from monitor_server.store.repositories.steps import Step
from monitor_server.text_safety.printable import printable
from trainer_hooks.wire import spell_non_finite

__all__ = ["EXPORT_VERSION", "export_jsonl", "export_parquet"]

EXPORT_VERSION = 1
STEPS_PER_PAGE = 500
ALERTS_PER_PAGE = 200
# A Parquet file has a column for each signal of any of its runs, in each group of rows. Its writer holds one group, and
# a description of all columns of all groups.
MAX_COLUMNS = 2_000
VALUES_PER_GROUP = 250_000  # observed values: about 20 MB as Python objects
CELLS_PER_GROUP = 2_000_000  # observed or not: 16 MB
MAX_HEADING_BYTES = 16 * 1024 * 1024  # the file's head contains the heading of each run, mostly its configuration
# The fixed columns of Parquet have this prefix; the other columns are signals under their own names.
PREFIX = "rlvitals."


def export_jsonl(store: Store, run_ids: Sequence[str]) -> Iterator[bytes]:
    """Yield runs one after the other, each with a line for itself, its steps, acknowledgements, phases and alerts."""
    for run_id in run_ids:
        row = _run_row(store, run_id)
        if row is None:
            continue
        heading = _heading(row)
        yield _line({"rlvitals_export": EXPORT_VERSION} | heading)
        for attempt, steps, acknowledgements in _pages(store, run_id, heading):
            yield b"".join(_step_line(step, attempt, acknowledgements.get((step.attempt, step.step))) for step in steps)
        yield from _findings(store, run_id, heading)


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
    names, runs = _columns_and_headings(store, run_ids)
    fixed = {
        "run": pa.string(), "project": pa.string(), "attempt": pa.int64(), "step": pa.int64(), "time": pa.float64(),
        "policy_version": pa.int64(), "data_version": pa.string(), "acknowledged": pa.list_(pa.string()),
    }  # fmt: skip
    schema = pa.schema(
        [*((PREFIX + name, kind) for name, kind in fixed.items()), *((name, pa.float64()) for name in sorted(names))],
        metadata={"rlvitals_export": json.dumps({"version": EXPORT_VERSION, "runs": runs})},
    )
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema) as writer:
        for rows in _row_groups(store, run_ids, runs, columns=len(schema)):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            yield sink.take()
    yield sink.take()


def _columns_and_headings(store: Store, run_ids: Sequence[str]) -> tuple[set[str], dict[str, Any]]:
    """Return the signals of some runs, and the heading of each run by its name."""
    names: set[str] = set()
    runs: dict[str, Any] = {}
    size = 0
    for run_id in run_ids:
        with store.read() as reading:
            row = reading.runs.row(run_id)
            names.update(reading.steps.signals(run_id))
        own = next((name for name in sorted(names) if name.startswith(PREFIX)), None)
        if own is not None:
            raise InvalidField(
                f"a Parquet file must have no signal whose name begins with {PREFIX}, as its own columns do, got "
                f"{printable(own, longest=60)!r}; export with format=jsonl"
            )
        if row is not None:
            heading = _heading(row)
            runs[str(row["name"])] = heading
            size += len(json.dumps(heading))
        if len(names) > MAX_COLUMNS or size > MAX_HEADING_BYTES:
            raise InvalidField(
                f"a Parquet file must have at most {MAX_COLUMNS} signals, and {MAX_HEADING_BYTES} bytes of "
                "configurations, of all its runs together; export them with format=jsonl, or one run at a time"
            )
    return names, runs


def _row_groups(
    store: Store, run_ids: Sequence[str], headings: Mapping[str, Any], *, columns: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of some runs in groups of bounded size, which small runs share."""
    rows: list[dict[str, Any]] = []
    values = 0
    for run_id in run_ids:
        row = _run_row(store, run_id)
        heading = None if row is None else headings.get(str(row["name"]))
        if row is None or heading is None:
            continue
        for attempt, steps, acknowledgements in _pages(store, run_id, heading):
            for step in steps:
                if values >= VALUES_PER_GROUP or len(rows) * columns >= CELLS_PER_GROUP:
                    yield rows
                    rows, values = [], 0
                rows.append(_fixed_fields(row, step, attempt, acknowledgements) | dict(step.signals))
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


def _run_row(store: Store, run_id: str) -> dict[str, Any] | None:
    with store.read() as reading:
        return reading.runs.row(run_id)


def _heading(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: row[name] for name in ("project", "source", "capability", "world_size", "ended", "started_at")}
    fields |= {"thinned": True} if row["has_thinned_steps"] else {}
    fields |= {"quarantined": True} if row["quarantined_at"] is not None else {}
    return {"run": row["name"]} | fields | {"config": read_object(row["config"] or b"{}")}


Acknowledgements = Mapping[tuple[int, int], Sequence[StoredAcknowledgement]]


def _pages(
    store: Store, run_id: str, heading: Mapping[str, Any]
) -> Iterator[tuple[int, Sequence[Step], Acknowledgements]]:
    """Yield the steps of a run in the order of detection, with the ordinal of their attempt.

    Raises:
        UnknownRun: If the run is deleted meanwhile.
        Unavailable: If one of its attempts is removed meanwhile, or it is thinned or quarantined.
    """
    given: dict[tuple[int, int], list[StoredAcknowledgement]] = {}
    with store.read() as reading:
        attempts = reading.attempts.ordinals(run_id)
        begun = reading.attempts.positions(run_id)
        for each in reading.alerts.acknowledgements(run_id):
            given.setdefault((each.attempt or 0, each.step or 0), []).append(each)
    for attempt, (ordinal, _) in attempts.items():
        begin = 0
        while True:
            with store.read() as reading:
                _require_unchanged(reading, run_id, begun, heading)
                steps = reading.steps.of_attempt(run_id, attempt, from_step=begin, limit=STEPS_PER_PAGE)
            if not steps:
                break
            yield ordinal, steps, given
            begin = steps[-1].step + 1


def _require_unchanged(
    reading: Repositories, run_id: str, begun: Mapping[int, int], heading: Mapping[str, Any]
) -> None:
    """Raise an error where a run has lost what its file began with; ``begun`` has the positions of its attempts."""
    row = reading.runs.row(run_id)
    if row is None or row["started_at"] != heading["started_at"]:
        raise UnknownRun.by_id(run_id)
    if row["has_thinned_steps"] and "thinned" not in heading:
        raise Unavailable(f"the steps of run {run_id} were thinned while it was exported; export it again")
    if row["quarantined_at"] is not None and "quarantined" not in heading:
        raise Unavailable(f"the run {run_id} was quarantined while it was exported; export it again")
    if not begun.items() <= reading.attempts.positions(run_id).items():
        raise Unavailable(f"the run {run_id} was reset while it was exported; export it again")


def _step_line(step: Step, attempt: int, acknowledgements: Sequence[StoredAcknowledgement] | None) -> bytes:
    fields: dict[str, Any] = {"step": step.step, "attempt": attempt, "time": step.time}
    if step.policy_version is not None:
        fields["policy_version"] = step.policy_version
    if step.data_version is not None:
        fields["data_version"] = step.data_version
    if acknowledgements:
        names = ("kind", "alert_id", "at", "by", "note")
        fields["acknowledged"] = [{name: getattr(each, name) for name in names} for each in acknowledgements]
    return _line(fields | {"signals": dict(step.signals)})


def _fixed_fields(
    row: Mapping[str, Any], step: Step, attempt: int, acknowledgements: Acknowledgements
) -> dict[str, Any]:
    kinds = [each.kind for each in acknowledgements.get((step.attempt, step.step), ())]
    fields = {
        "run": row["name"], "project": row["project"], "attempt": attempt, "step": step.step, "time": step.time,
        "policy_version": step.policy_version, "data_version": step.data_version, "acknowledged": kinds,
    }  # fmt: skip
    return {PREFIX + name: value for name, value in fields.items()}


def _findings(store: Store, run_id: str, heading: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the phases and the alerts of a run, which a reader of the steps finds again by itself."""
    with store.read() as reading:
        _require_unchanged(reading, run_id, {}, heading)
        phases = reading.phases.all(run_id)
    for phase, first, last in phases:
        yield _line({"phase": phase, "from_step": first, "to_step": last})
    before = None
    while True:
        with store.read() as reading:
            rows = reading.alerts.page(limit=ALERTS_PER_PAGE, run_id=run_id, before=before)
        for row in rows:
            yield _line({"alert": json.loads(alert_item(row).model_dump_json())})
        if len(rows) < ALERTS_PER_PAGE:
            return
        before = rows[-1]["number"]


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(spell_non_finite(fields), allow_nan=False).encode() + b"\n"
