"""Files from `rlvitals export`: steps as a collector recorded them, of one or many runs in a file."""

from collections.abc import Iterator, Mapping
from functools import partial
from operator import indexOf
from pathlib import Path
from typing import Any, Literal

from monitor_server.importers.formats.json_text import read_json
from monitor_server.importers.formats.parquet import batches, open_parquet
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog, RecordedRow, Row
from monitor_server.importers.signal_names import number
from monitor_server.importers.source import Position, lines_from
from monitor_server.importers.steps import MAX_STEP
from monitor_server.text_safety.printable import printable

__all__ = ["EXPORT_KEY", "ExportedJsonLines", "ExportedParquet"]

EXPORT_KEY = "rlvitals_export"
QUOTED_KEY = f'"{EXPORT_KEY}"'.encode()
END_KEY = "rlvitals_export_end"
KNOWN_VERSION = 1
PREFIX = "rlvitals."


class ExportedJsonLines:
    """JSON lines: a line with `EXPORT_KEY` begins a run; the following lines are its steps and findings.

    The last line of an export has `END_KEY`. A file that was cut at the end of a line reads as a quiet run without it.
    """

    name = "rlvitals export"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the first line begins a run; of a long line only the beginning is known."""
        del path
        first = head.lstrip().split(b"\n", 1)[0]
        return first.startswith(b"{") and QUOTED_KEY in first

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the runs of the file."""
        for position, line in lines_from(path, ReadReport()):
            heading = _heading(line)
            if heading is not None:
                name = heading.get("run")
                read = partial(_read_lines, path, position)
                name = name if isinstance(name, str) else path.name
                yield RecordedLog(name=name, path=path, format=self.name, read=read, end=_end(heading))


def _heading(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line that begins a run; few of the other lines are decoded for this check."""
    row = _object(line) if QUOTED_KEY in line else None
    return row if row is not None and EXPORT_KEY in row else None


def _end(heading: Mapping[str, Any]) -> Literal["finished", "stopped"]:
    """Return how the run ended; the copy of one that trained when it was exported gets no further steps."""
    return "finished" if heading.get("ended", "finished") == "finished" else "stopped"


def _take_heading(heading: Mapping[str, Any], report: ReadReport) -> None:
    """Note which steps of a run its file lacks."""
    report.is_thinned = heading.get("thinned") is True
    report.is_quarantined = heading.get("quarantined") is True


def _read_lines(path: Path, start: Position, report: ReadReport) -> Iterator[Row]:
    """Yield the steps of the run that begins at a position.

    Raises:
        LogError: If its version is not known, or if its lines end before the export did.
    """
    own: Mapping[str, Any] = {}
    position = start
    for position, line in lines_from(path, report, start):
        heading = _heading(line)
        if heading is not None:
            if position != start:
                _require_whole(path, own, heading, position.line)
                return
            own = heading
            _require_known(path, heading[EXPORT_KEY])
            _take_heading(heading, report)
            continue
        place, row = f"line {position.line + 1}", _object(line)
        if row is None:
            report.add_problem(path, place, "it is no JSON object")
            if QUOTED_KEY in line:  # the export was cut within this line, and another one was appended to it
                break
        elif END_KEY in row:
            return
        elif "signals" in row and (step := _read_step(path, place, row, report)) is not None:
            yield step
    if not report.is_growing:
        _require_whole(path, own, {}, position.line + 1)


def _require_whole(path: Path, heading: Mapping[str, Any], following: Mapping[str, Any], last: int) -> None:
    """Raise an error if a run was cut: its lines end, and neither the end nor a later run of its export follows.

    A file from which people have taken runs or lines looks the same, so the error says how such a file is read. A run
    without a place is of an older collector, which wrote no end.
    """
    place, next_place = (value if isinstance(value := each.get("place"), int) else 0 for each in (heading, following))
    if place and next_place <= place:
        raise LogError(
            f"{path} must hold the whole run {printable(str(heading.get('run')), longest=60)!r}: after line {last:,}, "
            "neither a later run of the same export nor its last line follows, so it was cut or edited; export it "
            f'again, or add the line {{"{END_KEY}": 1}} after it to read the run as it is'
        )


def _require_known(path: Path, version: object) -> None:
    if version != KNOWN_VERSION:
        raise LogError(
            f"{path} must be an export of version {KNOWN_VERSION}, got {printable(str(version), longest=60)}; read it "
            "with the release of rlvitals that wrote it, or a newer one"
        )


class ExportedParquet:
    """A Parquet file with the metadata `EXPORT_KEY`; every column without the prefix is a signal."""

    name = "rlvitals export (Parquet)"
    is_specific = True

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the file's metadata contains the export's key."""
        if not head.startswith(b"PAR1"):
            return False
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - FOOTER_BYTES))
                return EXPORT_KEY.encode() in file.read()
        except OSError:
            return False

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the runs of the file."""
        with open_parquet(path) as file:
            headings = _headings(file, path)
        for name, heading in headings.items():
            read = partial(_read_parquet, path, name, heading)
            yield RecordedLog(name=name, path=path, format=self.name, read=read, end=_end(heading))


# The footer of a file with a few thousand columns and row groups has some megabytes.
FOOTER_BYTES = 64 << 20


def _headings(file: Any, path: Path) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - pyarrow is an extra
    """Return the heading of each run, by its name."""
    try:
        metadata = read_json(file.schema_arrow.metadata[EXPORT_KEY.encode()])
        runs, version = metadata["runs"], metadata["version"]
        given = runs if isinstance(runs, dict) else dict.fromkeys(runs)
        headings = {str(name): heading if isinstance(heading, dict) else {} for name, heading in given.items()}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise LogError(f"{path} must be a file of `rlvitals export`: its metadata cannot be read") from error
    _require_known(path, version)
    return headings


def _read_parquet(path: Path, run: str, heading: Mapping[str, Any], report: ReadReport) -> Iterator[Row]:
    import pyarrow as pa  # noqa: PLC0415 - an extra, which has already read the names of the runs
    import pyarrow.compute as pc  # noqa: PLC0415 - an extra

    place = 0
    with open_parquet(path) as file:
        _take_heading(heading, report)
        try:
            for batch in batches(file, path, report, _groups_with(file.metadata, run)):
                for row in batch.filter(pc.equal(batch[f"{PREFIX}run"], run)).to_pylist():
                    place += 1
                    fields: dict[str, Any] = {"signals": {}}
                    for name, value in row.items():
                        if name.startswith(PREFIX):
                            fields[name.removeprefix(PREFIX)] = value
                        elif value is not None:
                            fields["signals"][name] = value
                    step = _read_step(path, f"row {place} of {run!r}", fields, report)
                    if step is not None:
                        yield step
        except LogError:
            raise
        except (pa.ArrowException, KeyError, OSError, ValueError) as error:
            raise LogError(f"{path} must be a readable file of `rlvitals export`: {error}; export it again") from error


def _groups_with(metadata: Any, run: str) -> list[int]:  # noqa: ANN401 - pyarrow is an extra
    """Return the row groups that may contain a run, by the first and last name that each states."""
    # This ends at the first match: a file has up to thousands of columns, and that of the runs is the first.
    column = indexOf((metadata.schema.column(place).path for place in range(metadata.num_columns)), f"{PREFIX}run")
    names = (metadata.row_group(place).column(column).statistics for place in range(metadata.num_row_groups))
    return [
        place
        for place, of_group in enumerate(names)
        if of_group is None or not isinstance(of_group.min, str) or of_group.min <= run <= of_group.max
    ]


def _read_step(path: Path, place: str, fields: Mapping[str, Any], report: ReadReport) -> RecordedRow | None:
    """Return a step, or report text that is not a valid step, because people edit exports."""
    try:
        step, attempt = _whole(fields, "step"), _whole(fields, "attempt", least=1)
        signals = {name: _number(value, f"the signal {name!r}") for name, value in fields["signals"].items()}
        time, version = fields.get("time"), fields.get("data_version")
        kinds = [each["kind"] if isinstance(each, dict) else each for each in fields.get("acknowledged") or ()]
        return RecordedRow(
            signals,
            step=step,
            attempt=attempt,
            time=None if time is None else _number(time, "time"),
            data_version=None if version is None else str(version),
            acknowledged=tuple(map(str, kinds)),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        report.add_problem(path, place, f"it is no step of an export: {error}")
        return None


def _whole(fields: Mapping[str, Any], name: str, *, least: int = 0) -> int:
    value = _number(fields.get(name), name)
    if not (least <= value <= MAX_STEP and value % 1 == 0):
        raise ValueError(f"{name} must be a whole number of {least} to 2**53, got {value:g}")
    return int(value)


def _number(value: object, name: str) -> float:
    read = number(value)
    if read is None:
        raise ValueError(f"{name} must be a number, got {str(value)[:60]!r}")
    return read


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = read_json(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
