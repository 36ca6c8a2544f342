"""The examination of a run whose log is read again and again: after each look that of the log as it is then."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

from monitor_server.detection.engine import EngineFactory
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.importers.mapping import NameMapping, name_unread_keys
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog
from monitor_server.importers.steps import observe
from monitor_server.log_check.examination import Examination, Examiner

__all__ = ["Change", "FollowedRun"]

# A log that is written anew as a whole has fewer steps for a moment.
LOOKS_OF_FEWER = 2


class Change(NamedTuple):
    """The examination after a look, the findings that were not given before, and whether another run has begun."""

    examination: Examination
    began: Sequence[Finding]
    is_replaced: bool


class FollowedRun:
    """Examines the new steps of a log at each look; or all steps of its file, if earlier ones are other steps now.

    Later lines may change how the earlier ones are read, and a step may get more signals: then the steps of the file
    are examined again, and only findings that were not given are. Another run has begun, in a log that was emptied or
    replaced, if the first step has other numbers than before, or if there are fewer steps at two looks in a row. Steps
    above the newest one continue the run, as after a rotation.

    Args:
        log: The log.
        engines: Builds the engines.
        overrides: Signal → the log's own key.
    """

    def __init__(self, log: RecordedLog, engines: EngineFactory, overrides: Mapping[str, str] | None = None) -> None:
        self.remarks: Sequence[str] = ()
        """What the newest look could not read, and what is not observed."""
        self._engines, self._overrides = engines, overrides
        self._problems: Sequence[str] = ()  # of the newest look at which the log had changed
        self._begin_run(log)

    def _begin_run(self, log: RecordedLog) -> None:
        found = Examination(log=log, mapping=NameMapping(self._overrides, log.aliases), report=ReadReport())
        self._given: set[tuple[str, int, int, Severity]] = set()
        self._attempts = 0  # in the earlier files
        self._begin_file(Examiner(found, self._engines()))

    def _begin_file(self, before: Examiner) -> None:
        self._before, self._examiner = before, before.copy(self._engines)
        self._digests = array("q")  # of the file's examined steps
        self._first: Mapping[str, float] = {}  # the signals of the first one
        self._looks_of_fewer = 0

    def look(self, log: RecordedLog, *, is_resting: bool) -> Change | None:
        """Read the log and examine what is new; None if nothing is.

        Args:
            log: The log.
            is_resting: Whether its newest step is examined as well. It may get more rows while the log grows.
        """
        read, taken = _Reading(log, self._overrides, is_resting=is_resting), len(self._digests)
        began, is_replaced = self._take(read), False
        if began is None:
            relation = self._relation_of(read)
            if relation is not _Relation.UNCLEAR:
                is_replaced = relation is _Relation.OTHER_RUN and bool(self._examiner.examination.envelopes)
                self._begin_again(relation, log)
                read = _Reading(log, self._overrides, is_resting=is_resting)
                taken, began = -1, self._take(read)
        else:
            self._looks_of_fewer = 0
        found = self._examiner.examination
        self.remarks = read.remarks(found, self._problems)
        if not is_resting:
            self._problems = read.report.problems
        if began is None or len(self._digests) == taken:
            return None
        found.log, found.mapping, found.report = log, read.mapping, read.report
        return Change(found, began, is_replaced)

    def _take(self, read: "_Reading") -> list[Finding] | None:
        """Examine the new steps and return their findings that were not given before; None if earlier steps differ."""
        began: list[Finding] = []
        taken, is_known = len(self._digests), True
        for place, (observation, is_open) in enumerate(read.steps()):
            if place < taken:
                is_known = is_known and (is_open or _digest(observation) == self._digests[place])
            elif is_known and not is_open:
                began += self._examine(observation)
        return began if is_known and (read.count >= taken or read.error is not None) else None

    def _examine(self, observation: Observation) -> Iterator[Finding]:
        if not self._digests:
            self._first = observation.signals
        self._digests.append(_digest(observation))
        attempt = observation.attempt + self._attempts
        for finding in self._examiner.take(replace(observation, attempt=attempt)):
            key = (finding.kind, attempt, finding.step, finding.severity)
            if key not in self._given:
                self._given.add(key)
                yield finding

    def _relation_of(self, read: "_Reading") -> "_Relation":
        """Return what a log with other steps than before is."""
        first, found = read.first, self._examiner.examination
        if first is None or read.error is not None:
            return _Relation.UNCLEAR
        is_fewer = read.count < len(self._digests)
        has_first = _has_all(first, self._first)
        if found.envelopes and first.step > found.last_step and (is_fewer or not (has_first and self._first)):
            return _Relation.CONTINUATION
        if not has_first:
            return _Relation.OTHER_RUN
        if not is_fewer:
            return _Relation.SAME_RUN
        self._looks_of_fewer += 1
        return _Relation.UNCLEAR if self._looks_of_fewer < LOOKS_OF_FEWER else _Relation.OTHER_RUN

    def _begin_again(self, relation: "_Relation", log: RecordedLog) -> None:
        if relation is _Relation.OTHER_RUN:
            self._begin_run(log)
        elif relation is _Relation.SAME_RUN:
            self._begin_file(self._before)
        else:
            self._attempts = self._examiner.examination.attempts - 1
            self._begin_file(self._examiner)


class _Relation(Enum):
    """What the steps of a log are to those that were examined before, of which some are not in it."""

    UNCLEAR = auto()
    SAME_RUN = auto()
    """They are read otherwise, or have more signals."""
    CONTINUATION = auto()
    OTHER_RUN = auto()


class _Reading:
    """One reading of a log: its steps, and what is known at their end."""

    def __init__(self, log: RecordedLog, overrides: Mapping[str, str] | None, *, is_resting: bool) -> None:
        self.mapping, self.report = NameMapping(overrides, log.aliases), ReadReport(is_growing=True)
        self.count = 0
        self.first: Observation | None = None
        """The first step, unless it is open."""
        self.error: LogError | None = None
        self._log, self._is_resting = log, is_resting

    def steps(self) -> Iterator[tuple[Observation, bool]]:
        """Yield the steps, and whether each is open: the newest one may get more rows, unless the log rests.

        They end where the log cannot be read any more; the step before is left out, because a part may be missing.
        """
        held: Observation | None = None
        try:
            for observation in observe(self._log.read(self.report), self.mapping.signals, self.report):
                if held is not None:
                    yield self._count(held, is_open=False)
                held = observation
        except LogError as error:
            self.error = error
            return
        if held is not None:
            yield self._count(held, is_open=not self._is_resting)

    def _count(self, step: Observation, *, is_open: bool) -> tuple[Observation, bool]:
        if not self.count and not is_open:
            self.first = step
        self.count += 1
        return step, is_open

    def remarks(self, found: Examination, problems: Sequence[str]) -> list[str]:
        """Return what could not be read, and what is not observed.

        Of the damaged places those are named that were among the ``problems`` before the log changed. The others may
        be the end of a log whose last part is not written yet.
        """
        if self.error is not None:
            return [f"{self.error}; waiting for it to change"]
        remarks = [f"passed over: {problem}" for problem in self.report.problems if problem in problems]
        if found.rows:
            remarks += [f"{line} yet" for line in name_unread_keys([self.mapping])]
            if not found.observed:
                remarks.append("no signal that a detector reads was logged yet, so nothing is watched")
        return remarks


def _has_all(step: Observation, signals: Mapping[str, float]) -> bool:
    return all(name in step.signals and repr(step.signals[name]) == repr(value) for name, value in signals.items())


def _digest(step: Observation) -> int:
    return hash(repr(step))
