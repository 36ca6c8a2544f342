"""Finds the runs in files and folders: the format of a file, and the kind of a folder."""

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from monitor_server.importers.corpus import DATA_FILES, ENDINGS, folder_name, name_without_ending, read_aliases
from monitor_server.importers.formats import sqlite
from monitor_server.importers.formats.console.console_log import ConsoleLog
from monitor_server.importers.formats.delimited import Delimited
from monitor_server.importers.formats.exported import ExportedJsonLines, ExportedParquet
from monitor_server.importers.formats.json_documents import JsonColumns, JsonList, TrainerState
from monitor_server.importers.formats.json_lines import JsonLines, read_json_lines
from monitor_server.importers.formats.mlflow import MlflowDatabase, is_deleted, is_mlflow_run, mlflow_run
from monitor_server.importers.formats.notebook import Notebook
from monitor_server.importers.formats.parquet import Parquet
from monitor_server.importers.formats.table_layout import is_lone_heading
from monitor_server.importers.formats.tensorboard.event_file import EventFile, event_files
from monitor_server.importers.formats.trackio import TrackioDatabase
from monitor_server.importers.formats.wandb_file import WandbFile
from monitor_server.importers.protocol import Importer, LogError, ReadReport, RecordedLog
from monitor_server.importers.signal_names import number, signal_of
from monitor_server.importers.source import head, is_tar

__all__ = ["IMPORTERS", "find_logs"]

# In the order of the checks: formats that prove themselves first, text that might contain anything last.
IMPORTERS: tuple[Importer, ...] = (
    EventFile(),
    WandbFile(),
    TrackioDatabase(),
    MlflowDatabase(),
    ExportedParquet(),
    ExportedJsonLines(),
    Parquet(),
    TrainerState(),
    Notebook(),
    JsonColumns(),
    JsonLines(),
    JsonList(),
    Delimited(),
    ConsoleLog(),
)
# Bound of a search through folders.
MAX_ENTRIES = 100_000
# The first rows of a table or a console log in which a known signal must occur when a folder is searched.
PROBE_ROWS = 50
PROBE_BYTES = 8 << 20
# Compressed forms that the standard library does not read, and the program that decompresses each.
COMPRESSED = {b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
ARCHIVES = (b"PK\x03\x04", b"7z\xbc\xaf\x27\x1c", b"Rar!")
# W&B's folder of a run.
_WANDB_FOLDER = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-\w+")
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


# Receives a sentence about a file or folder that may contain a log and cannot be read.
PassedOver = Callable[[str], None]


def find_logs(
    paths: Iterable[Path], keys: Sequence[str] = (), passed_over: PassedOver = lambda _: None
) -> list[RecordedLog]:
    """Return the runs in files and folders, those of a folder in the order of their names.

    A named file is read in the format of its content. A folder is searched. Files in it whose content proves no format
    (tables, text) count only if they name a known signal early on.

    Args:
        paths: Files and folders.
        keys: The user's own keys for signals, which count as known.
        passed_over: Called for each unreadable file and folder in a searched folder, with its name and the reason: no
            permission, a locked or damaged database, a damaged file of a known format, the heading of a log without a
            row, a log in a compressed form that is not read. An archive, which may be a saved model, is named only if
            the folder contains no run.

    Raises:
        LogError: If a path does not exist, a file cannot be read, or a folder contains no run.
    """
    found: list[RecordedLog] = []
    for path in paths:
        if not _exists(path):
            if str(path) == "-":
                raise LogError("standard input must be written to a file first: a log is read more than once")
            raise LogError(f"{path} must be a log or a folder of logs; it does not exist")
        if path.is_dir():
            unreadable: list[str] = []
            packed: list[str] = []
            logs = _unique(list(_in_folder(path, frozenset(keys), unreadable.append, packed.append)))
            if not logs:
                reasons = "".join(f"; {reason}" for reason in (unreadable + packed)[:1])
                raise LogError(
                    f"{path} must hold a log in a known format; found none{reasons} (formats: docs/importers.md)"
                )
            for reason in unreadable:
                passed_over(reason)
        else:
            logs = _in_file(path)
        found += logs
    return _unique(found)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise LogError(f"{path} must be a log or a folder of logs that may be read: {error}") from error


def _in_file(path: Path) -> list[RecordedLog]:
    beginning = head(path)
    for importer in IMPORTERS:
        if importer.recognises(path, beginning):
            logs = [_name_without_ending(log) for log in importer.logs(path)]
            if not logs:
                raise LogError(f"{path} must hold at least one run; found none in it as {importer.name}")
            return logs
    if not path.is_file():
        raise LogError(f"{path} must be a readable log: it is not a regular file; write its content to one")
    raise LogError(f"{path} must be a log: {_reason(path, beginning)}; formats: docs/importers.md")


def _reason(path: Path, beginning: bytes) -> str:
    """Return why a file is not a log."""
    unknown = f"its content is in no known format (it begins {beginning[:12]!r})" if beginning else "it is empty"
    return _fault(path, beginning) or unknown


def _fault(path: Path, beginning: bytes) -> str | None:
    """Return why a file that no importer recognises could not be read; None if it is simply no log."""
    if not beginning:
        return _access_fault(path)
    if _is_archive(beginning):
        return "it is an archive; unpack it, and name the folder"
    program = _compressor(beginning)
    if program is not None:
        return f"it is compressed; decompress it with `{program} -d` first"
    return sqlite.fault(path) if beginning.startswith(sqlite.MAGIC) else None


def _access_fault(path: Path) -> str | None:
    """Return why no byte of a file could be read; None if it is empty."""
    try:
        with path.open("rb") as file:
            return "it is compressed, and damaged at its beginning" if file.read(1) else None
    except FileNotFoundError:  # the file was removed meanwhile
        return None
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def _is_archive(beginning: bytes) -> bool:
    return beginning.startswith(ARCHIVES) or is_tar(beginning)


def _compressor(beginning: bytes) -> str | None:
    return next((program for magic, program in COMPRESSED.items() if beginning.startswith(magic)), None)


def _may_hold_anything(path: Path, beginning: bytes) -> bool:
    """Whether a packed file is as likely a model or a data set as a log; a log has the ending of one within."""
    return _is_archive(beginning) or (_compressor(beginning) is not None and not path.stem.lower().endswith(ENDINGS))


def _in_folder(
    folder: Path, keys: frozenset[str], passed_over: PassedOver, packed: PassedOver
) -> Iterator[RecordedLog]:
    """Yield the runs in a folder; symbolic links are not followed."""
    entries = 0
    waiting = deque([folder])
    while waiting:
        current = waiting.popleft()
        if entries >= MAX_ENTRIES:
            passed_over(
                f"{current} and {len(waiting)} more folders of {folder} were passed over, because a search ends at "
                f"{MAX_ENTRIES:,} files and folders; name the folders of the logs"
            )
            return
        try:
            children = _children(current)
            whole = _folder_run(current)
            files = [child for child in children if child.is_file()]
            folders = [child for child in children if child.is_dir()]
        except OSError as error:
            passed_over(f"{current} cannot be searched: {error.strerror}")
            continue
        if whole is not None:
            if current == folder or not is_deleted(current):
                yield whole
            continue
        entries += len(children)
        yield from _files_in(current, files, keys, passed_over, packed)
        waiting += _newest_checkpoint(folders, files, passed_over)


def _children(folder: Path) -> list[Path]:
    with os.scandir(folder) as scanned:
        names = sorted(entry.name for entry in islice(scanned, MAX_ENTRIES) if not entry.is_symlink())
    return [folder / name for name in names if not name.startswith(".")]


def _newest_checkpoint(folders: list[Path], files: list[Path], passed_over: PassedOver) -> list[Path]:
    """Leave out all checkpoints but the newest, which has all history; beside a trainer_state.json, leave out all.

    The history is the last file of a checkpoint that is saved. A checkpoint during which the trainer ended lacks it.
    """
    checkpoints = [path for path in folders if _CHECKPOINT.fullmatch(path.name)]
    others = [path for path in folders if path not in checkpoints]
    if any(path.name == "trainer_state.json" for path in files):
        return others
    checkpoints.sort(key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    newest = next(filter(_has_history, checkpoints), None)
    if newest is None:
        return others + checkpoints[:1]
    if newest != checkpoints[0]:
        passed_over(
            f"{checkpoints[0]} was passed over: it has no readable trainer_state.json, so the run ends with {newest}"
        )
    return [*others, newest]


def _has_history(checkpoint: Path) -> bool:
    state = checkpoint / "trainer_state.json"
    if not TrainerState().recognises(state, head(state)):
        return False
    (log,) = TrainerState().logs(state)
    try:
        return next(log.read(ReadReport()), None) is not None  # a full disk may have cut it within the first row
    except LogError:
        return False


def _folder_run(folder: Path) -> RecordedLog | None:
    """Return the run that a folder forms as a whole."""
    data = next((folder / name for name in DATA_FILES if (folder / name).is_file()), None)
    if data is not None:
        return RecordedLog(
            name=folder_name(folder),
            path=folder,
            format="run folder",
            read=lambda report: read_json_lines(data, report),
            aliases=read_aliases(folder),
        )
    if is_mlflow_run(folder):
        return mlflow_run(folder)
    return _wandb_run(folder)


def _wandb_run(folder: Path) -> RecordedLog | None:
    """Return the run of one of W&B's folders: its run file, or its printed output if the run file has no row.

    W&B writes rows some steps late, so that a run that was killed early has none. A folder without a run file is
    searched.
    """
    stored = sorted(path for path in folder.glob("*.wandb") if path.is_file())
    if not stored:
        return None
    is_whole = WandbFile().recognises(stored[0], head(stored[0]))
    run = next(WandbFile().logs(stored[0])) if is_whole else None
    output = folder / "files" / "output.log"
    if not output.is_file() or (run is not None and next(run.read(ReadReport()), None) is not None):
        return run
    printed = replace(next(ConsoleLog().logs(output)), name=folder_name(folder) if run is None else run.name)
    return printed if run is None or _names_a_signal(printed, frozenset()) else run


def _files_in(
    folder: Path, files: list[Path], keys: frozenset[str], passed_over: PassedOver, packed: PassedOver
) -> Iterator[RecordedLog]:
    events: list[Path] = []
    for path in files:
        if path.name == "meta.json":
            continue
        beginning = head(path)
        importer = next((each for each in IMPORTERS if each.recognises(path, beginning)), None)
        is_text = isinstance(importer, ConsoleLog)  # which takes every text
        if is_text and is_lone_heading(beginning.decode(errors="replace")):
            passed_over(f"{path} was passed over: it has the heading of a log, and no step")
        elif importer is None:
            fault = _fault(path, beginning)
            if fault is not None:
                report = packed if _may_hold_anything(path, beginning) else passed_over
                report(f"{path} was passed over: {fault}")
        elif isinstance(importer, EventFile):
            events.append(path)
        else:
            yield from _runs_in(path, importer, keys, passed_over)
    if events:
        yield from event_files(folder_name(folder), events)


def _runs_in(path: Path, importer: Importer, keys: frozenset[str], passed_over: PassedOver) -> Iterator[RecordedLog]:
    """Yield the runs of a file in a searched folder; a file without a proven format must name a signal."""
    try:
        for log in importer.logs(path):
            if importer.is_specific or _names_a_signal(log, keys):
                yield _name_without_ending(log)
    except LogError as error:
        if importer.is_specific or isinstance(importer, Parquet):  # its magic bytes prove the format, not a log
            passed_over(f"{path} was passed over: {error}")


def _names_a_signal(log: RecordedLog, keys: frozenset[str]) -> bool:
    report = ReadReport()
    for row in islice(log.read(report), PROBE_ROWS):
        if any((key in keys or signal_of(key) not in (None, "lr")) and number(row[key]) is not None for key in row):
            return True  # a learning rate alone is a configuration
        if report.bytes_read > PROBE_BYTES:
            break
    return False


def _name_without_ending(log: RecordedLog) -> RecordedLog:
    """Remove the ending from a name that comes from a file; a name from the log itself stays unchanged.

    The output of a run of W&B has the name of its folder.
    """
    of_run = folder_name(log.path.parent / "..")
    if log.name == log.path.name == "output.log" and _WANDB_FOLDER.fullmatch(of_run):
        return replace(log, name=of_run)
    return replace(log, name=name_without_ending(log.name)) if log.name == log.path.name else log


def _unique(logs: Sequence[RecordedLog]) -> list[RecordedLog]:
    """Number the names that several runs share, with numbers that produce no other run's name."""
    given = {log.name for log in logs}
    taken: dict[str, int] = {}
    named: list[RecordedLog] = []
    for log in logs:
        count = taken[log.name] = taken.get(log.name, 0) + 1
        name = log.name
        while count > 1 and (name := f"{log.name}-{count}") in given:
            count = taken[log.name] = count + 1
        given.add(name)
        named.append(log if name == log.name else replace(log, name=name))
    return named
