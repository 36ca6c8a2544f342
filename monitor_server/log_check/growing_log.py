"""Checks a log that is still being written: a monitor for a training that cannot be changed."""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from monitor_server.detection.engine import EngineFactory
from monitor_server.importers.protocol import LogError, RecordedLog
from monitor_server.importers.search.logs import find_logs
from monitor_server.log_check.followed_run import Change, FollowedRun
from monitor_server.log_check.watched_run import WatchedRun

__all__ = ["follow"]

BUILTIN_ENGINES = EngineFactory()
# Reading a large log takes long; at most this share of the time of one core is spent on it.
READING_SHARE = 0.1
SLOW = (
    "reading the log takes more than a tenth of the interval, so the pause between two looks is ten times the "
    "processor time of a look"
)
# The newest step may get more rows. It is examined when a newer step has arrived, or the log has not changed for this
# many looks.
RESTING_LOOKS = 3
# Entries of a folder that are looked at, in the order of the file system.
MAX_ENTRIES = 10_000
MAX_NOTICES = 100


def follow(
    path: Path,
    *,
    seconds: float,
    engines: EngineFactory = BUILTIN_ENGINES,
    overrides: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    waiting: Callable[[str], None] = lambda _: None,
) -> Iterator[Change]:
    """Yield each change of a growing log; after it the examination is that of the log as it is then.

    The log is read from its beginning whenever it has changed, which works for every format; `FollowedRun` examines
    only the new steps if it can. The loop ends when the reader stops iterating.

    Args:
        path: A log, or a folder; it may not exist yet. Of several runs the first one is followed, also when others
            begin later.
        seconds: The time between two looks.
        engines: Builds the engines.
        overrides: Signal → the log's own key.
        sleep: Waits between looks.
        waiting: Called once with each reason why something is not examined, and if further runs are not watched. A
            reason counts if two reads in a row have it, because a writer may have been in the middle of its work.
    """
    notices, watched = _Notices(waiting), WatchedRun()
    run: FollowedRun | None = None
    seen: tuple[tuple[str, int, int], ...] | None = None
    resting = 0
    slow: Sequence[str] = ()
    while True:
        begun = time.process_time()
        now = _stamp(path)
        resting = resting + 1 if now == seen else 0
        if now != seen or resting == RESTING_LOOKS:
            seen = now
            log = _find(path, list((overrides or {}).values()), watched, notices)
            if log is not None:
                run = run or FollowedRun(log, engines, overrides)
                change = run.look(log, is_resting=resting >= RESTING_LOOKS)
                notices.note([*run.remarks, *slow])
                slow = (SLOW,) if time.process_time() - begun > seconds * READING_SHARE else ()
                if change is not None:
                    yield change
        sleep(max(seconds, (time.process_time() - begun) / READING_SHARE))


class _Notices:
    """Passes on why a log cannot be examined, each reason once."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._given: set[str] = set()
        self._newest: Sequence[str] = ()

    def note(self, reasons: Sequence[str]) -> None:
        """Note the reasons of one read; each is given when the next read has it, too."""
        for reason in reasons:
            if reason in self._newest:
                self.give(reason)
        self._newest = reasons

    def give(self, text: str) -> None:
        """Call the function with a notice, unless it was called with the same notice before."""
        if text not in self._given and len(self._given) < MAX_NOTICES:
            self._given.add(text)
            self._notify(text)


def _find(path: Path, keys: Sequence[str], watched: WatchedRun, notices: _Notices) -> RecordedLog | None:
    """Return the watched log; None if it does not exist, is empty, or has no row yet."""
    try:
        logs = find_logs([path], keys)
        log = watched.choose(logs)
    except LogError as error:
        notices.note([f"{error}; waiting for it to change"])
        return None
    if len(logs) > 1:
        notices.give(f"{path} holds {len(logs)} runs; only {log.name} of {log.path} is watched")
    return log


def _stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return values that change when a log changes: names, sizes and times of its files."""
    stamps = []
    log = Path(f"{os.path.realpath(path)}-wal")  # a database in use has its newest rows there
    for each in islice(chain([path, log], _within(path)), MAX_ENTRIES):
        try:
            status = os.stat(each, follow_symlinks=each == path)  # noqa: PTH116 - it may vanish, or be unreadable
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            stamps.append((str(each), status.st_size, status.st_mtime_ns))
    return tuple(sorted(stamps))


def _within(folder: Path) -> Iterator[Path]:
    """Yield the entries of a folder at all depths; nothing of a file, and of a folder that may not be read."""
    for within, folders, files in os.walk(folder):
        yield from (Path(within, name) for name in [*files, *folders])
