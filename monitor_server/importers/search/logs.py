"""Returns the runs in files and folders that a user names."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from monitor_server.importers.protocol import LogError, RecordedLog
from monitor_server.importers.search.folders import search_folder
from monitor_server.importers.search.known_formats import find_importer, name_log
from monitor_server.importers.search.unreadable_files import PassedOver, find_fault
from monitor_server.importers.source import head

__all__ = ["find_logs"]


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
            logs = _unique(list(search_folder(path, frozenset(keys), unreadable.append, packed.append)))
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
    importer = find_importer(path, beginning)
    if importer is not None:
        logs = [name_log(log) for log in importer.logs(path)]
        if not logs:
            raise LogError(f"{path} must hold at least one run; found none in it as {importer.name}")
        return logs
    if not path.is_file():
        raise LogError(f"{path} must be a readable log: it is not a regular file; write its content to one")
    raise LogError(f"{path} must be a log: {_reason(path, beginning)}; formats: docs/importers.md")


def _reason(path: Path, beginning: bytes) -> str:
    """Return why a file is not a log."""
    unknown = f"its content is in no known format (it begins {beginning[:12]!r})" if beginning else "it is empty"
    return find_fault(path, beginning) or unknown


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
