"""Checks a log that is still being written: a monitor for a training that cannot be changed."""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Finding, Observation
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import LogError, ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe
from monitor_server.log_check.examination import Examination, Examiner
from monitor_server.log_check.watched_run import WatchedRun

__all__ = ["follow"]

# Reading a large log takes long; at most this share of the time is spent on reading.
READING_SHARE = 0.1
# The newest step may get more rows. It is processed when a newer step has arrived, or the log has not changed for this
# many looks.
RESTING_LOOKS = 3
# Entries of a folder that are looked at, in the order of the file system.
MAX_ENTRIES = 10_000
MAX_NOTICES = 100


def follow(
    path: Path,
    *,
    seconds: float,
    engine: Callable[[], Engine] = Engine,
    overrides: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    waiting: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[Examination, Sequence[Finding]]]:
    """Yield the examination of a growing log and its new findings, each time there are new steps.

    The log is read again from its beginning whenever it has changed, which works for every format; the engine processes
    only the new steps. If the first step of the log has other numbers than before, the log was emptied or replaced. If
    the steps then continue above the newest one, as after a rotation, the engine continues as well; otherwise the
    examination begins anew, as another object. So it does if the newest processed step but one is another one now,
    because the log's later rows changed how its first ones are read: the places of all steps have changed. The
    loop ends when the reader stops iterating.

    Args:
        path: A log, or a folder; it may not exist yet. Of several runs the first one is followed, also when others
            begin later.
        seconds: The time between two looks.
        engine: Builds a fresh engine.
        overrides: Signal → the log's own key.
        sleep: Waits between looks.
        waiting: Called once with each reason why there is nothing to examine, and if further runs are not watched. A
            reason counts if two reads in a row have it, because a writer may have been in the middle of its work.
    """
    notices, watched = _Notices(waiting), WatchedRun()
    course: _Course | None = None
    seen: tuple[tuple[str, int, int], ...] | None = None
    resting = 0
    while True:
        begun = time.monotonic()
        now = _stamp(path)
        resting = resting + 1 if now == seen else 0
        if now != seen or resting == RESTING_LOOKS:
            seen = now
            steps = _read(path, overrides, watched, notices)
            if steps is not None:
                fresh, observations = steps
                began: list[Finding] = []
                is_changed = False
                for place, observation in enumerate(
                    _leave_out_newest(observations, notices, is_resting=resting >= RESTING_LOOKS)
                ):
                    if course is None or (
                        place == 0 and (course.is_over_at(observation) or course.is_empty_before(observation))
                    ):
                        course = _Course(fresh, engine())
                    elif place == 0 and not course.begins_with(observation):
                        course.go_on_in_new_file()
                    if place == course.taken - 2 and not course.continues(observation):
                        course = seen = None  # the next look reads the log from its beginning
                        break
                    if place >= course.taken:
                        began += course.take(observation)
                        is_changed = True
                if course is not None and is_changed:
                    course.examination.mapping, course.examination.report = fresh.mapping, fresh.report
                    yield course.examination, began
        sleep(max(seconds, (time.monotonic() - begun) / READING_SHARE))


class _Course:
    """The examination of one run over all looks at its log."""

    def __init__(self, examination: Examination, engine: Engine) -> None:
        self.examination = examination
        self.taken = 0  # the number of processed steps of the current file
        self._examiner = Examiner(examination, engine)
        self._first: Mapping[str, float] = {}  # the signals of the file's first step
        self._newest: Mapping[str, float] = {}  # the signals of the newest processed step
        self._before_newest: Mapping[str, float] = {}  # and of the one before
        self._attempts = 0  # the number of attempts in the earlier files

    def begins_with(self, observation: Observation) -> bool:
        """Return whether the first step equals the first step of the previous look; it may have more signals now."""
        return _has_all(observation, self._first)

    def continues(self, observation: Observation) -> bool:
        """Return whether the newest processed step but one is that of the previous look; it may have more signals now.

        The newest one may have been read from a line that was half written.
        """
        return _has_all(observation, self._before_newest)

    def is_over_at(self, observation: Observation) -> bool:
        """Return whether the first step belongs to another run."""
        return not self.begins_with(observation) and observation.step <= self.examination.last_step

    def is_empty_before(self, observation: Observation) -> bool:
        """Return whether this is the first step with signals; rows before the training become a part of it."""
        return bool(observation.signals) and not self.examination.traces

    def go_on_in_new_file(self) -> None:
        """Prepare for the steps of a file that continues this run."""
        self.taken, self._attempts = 0, self.examination.attempts - 1

    def take(self, observation: Observation) -> Sequence[Finding]:
        """Process the next step and return the findings that begin with it."""
        if not self.taken:
            self._first = observation.signals
        self._before_newest, self._newest = self._newest, observation.signals
        self.taken += 1
        return self._examiner.take(replace(observation, attempt=observation.attempt + self._attempts))


def _has_all(observation: Observation, signals: Mapping[str, float]) -> bool:
    now = observation.signals
    return all(name in now and repr(now[name]) == repr(value) for name, value in signals.items())


class _Notices:
    """Passes on why a log cannot be examined, each reason once."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._given: set[str] = set()
        self._newest = ""

    def cannot_read(self, reason: str) -> None:
        """Note the reason of one read; it is given when the next read has it, too."""
        if reason == self._newest:
            self.give(f"{reason}; waiting for it to change")
        self._newest = reason

    def give(self, text: str) -> None:
        """Call the function with a notice, unless it was called with the same notice before."""
        if text not in self._given and len(self._given) < MAX_NOTICES:
            self._given.add(text)
            self._notify(text)


def _read(
    path: Path, overrides: Mapping[str, str] | None, watched: WatchedRun, notices: _Notices
) -> tuple[Examination, Iterator[Observation]] | None:
    """Return the current log; None if it does not exist, is empty, or has no row yet."""
    try:
        logs = find_logs([path], list((overrides or {}).values()))
        log = watched.choose(logs)
    except LogError as error:
        notices.cannot_read(str(error))
        return None
    if len(logs) > 1:
        notices.give(f"{path} holds {len(logs)} runs; only {log.name} of {log.path} is watched")
    found = Examination(log=log, mapping=NameMapping(overrides, log.aliases), report=ReadReport())
    return found, observe(log.read(found.report), found.mapping.signals, found.report)


def _leave_out_newest(
    observations: Iterator[Observation], notices: _Notices, *, is_resting: bool
) -> Iterator[Observation]:
    """Leave out the newest step unless the log rests; end quietly if the log breaks off."""
    held: Observation | None = None
    try:
        for observation in observations:
            if held is not None:
                yield held
            held = observation
    except LogError as error:
        notices.cannot_read(str(error))
        return
    if held is not None and is_resting:
        yield held


def _stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return values that change when a log changes: names, sizes and times of its files."""
    stamps = []
    for each in islice(chain([path], _within(path)), MAX_ENTRIES):
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
