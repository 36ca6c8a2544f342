"""Searches a folder and the folders in it for runs."""

import os
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from monitor_server.importers.corpus import folder_name
from monitor_server.importers.formats.console.console_log import ConsoleLog
from monitor_server.importers.formats.mlflow import is_deleted
from monitor_server.importers.formats.parquet import Parquet
from monitor_server.importers.formats.table_layout import is_lone_heading
from monitor_server.importers.formats.tensorboard.event_file import EventFile, event_files
from monitor_server.importers.protocol import Importer, LogError, RecordedLog
from monitor_server.importers.search.folder_runs import folder_run, leave_old_checkpoints
from monitor_server.importers.search.known_formats import find_importer, name_log, names_a_signal
from monitor_server.importers.search.unreadable_files import PassedOver, find_fault, may_hold_anything
from monitor_server.importers.source import head

__all__ = ["search_folder"]

# Bound of a search through folders.
MAX_ENTRIES = 100_000


def search_folder(
    folder: Path, keys: frozenset[str], passed_over: PassedOver, packed: PassedOver
) -> Iterator[RecordedLog]:
    """Yield the runs in a folder and the folders in it; symbolic links are not followed.

    Args:
        folder: The folder.
        keys: The user's own keys for signals.
        passed_over: Called for each file and folder that may contain a log and cannot be read.
        packed: Called for each archive, which may contain anything.
    """
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
            whole = folder_run(current)
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
        waiting += leave_old_checkpoints(folders, files, passed_over)


def _children(folder: Path) -> list[Path]:
    with os.scandir(folder) as scanned:
        names = sorted(entry.name for entry in islice(scanned, MAX_ENTRIES) if not entry.is_symlink())
    return [folder / name for name in names if not name.startswith(".")]


def _files_in(
    folder: Path, files: list[Path], keys: frozenset[str], passed_over: PassedOver, packed: PassedOver
) -> Iterator[RecordedLog]:
    events: list[Path] = []
    for path in files:
        if path.name == "meta.json":
            continue
        beginning = head(path)
        importer = find_importer(path, beginning)
        is_text = isinstance(importer, ConsoleLog)  # which takes every text
        if is_text and is_lone_heading(beginning.decode(errors="replace")):
            passed_over(f"{path} was passed over: it has the heading of a log, and no step")
        elif importer is None:
            fault = find_fault(path, beginning)
            if fault is not None:
                report = packed if may_hold_anything(path, beginning) else passed_over
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
            if importer.is_specific or names_a_signal(log, keys):
                yield name_log(log)
    except LogError as error:
        if importer.is_specific or isinstance(importer, Parquet):  # its magic bytes prove the format, not a log
            passed_over(f"{path} was passed over: {error}")
