"""The base class of the detectors: order of steps, resumes and rewinds, curriculum changes, and evidence.

A detector overrides `_observe`, and also `_resume` or `_rebaseline` if its memory needs it. Steps that were already
seen, or that come from an attempt that has been replaced, are ignored here, for all detectors.
"""

from collections.abc import Iterable, KeysView, Mapping, Sequence
from typing import Any, ClassVar

from monitor_server.detection.base_classes.readings import list_missing
from monitor_server.detection.protocol import Acknowledgement, Finding, Observation, Severity
from monitor_server.detection.statistics.state import Stateful

__all__ = ["DETECTOR_VERSION", "DetectorGroup", "StreamDetector"]

DETECTOR_VERSION = "builtin-13"  # changes with the alarms of any detector; also the id of the built-in calibration
ROWS_PER_SELECTION = 64
MOST_SPANS = 32  # two rows each, if distances vary
MOST_VERSIONS = 8


class RowOrder(Stateful):
    """The newest position of a run; it decides which rows are new, and which begin an attempt or new data."""

    def __init__(self) -> None:
        self.attempt: int | None = None
        self.step: int | None = None
        # The newest versions of the data, each with the step that was the first to name it.
        self.versions: list[list[Any]] = []
        self.row_count = 0  # the rows of the run, without those that were replaced
        self.stride: int | None = None  # the smallest distance of two successive rows
        # First step, distance and number of the newest rows: one entry for successive rows of the same distance.
        self.spans: list[list[int]] = []

    def is_new(self, observation: Observation) -> bool:
        """Return whether a row is newer than the newest one."""
        if self.step is None or self.attempt is None or observation.attempt > self.attempt:
            return True
        return observation.attempt == self.attempt and observation.step > self.step

    def resumes(self, observation: Observation) -> bool:
        """Return whether a new row is the first of a new attempt."""
        return self.attempt is not None and observation.attempt > self.attempt

    def count_replaced(self, step: int) -> int:
        """Return the number of rows that an attempt from a step on replaces.

        The newest rows are counted. Before them the number is too high if distances vary.

        >>> order = RowOrder()
        >>> for row in (10, 20, 30, 31, 32):
        ...     order.advance(Observation(step=row, signals={}))
        >>> order.count_replaced(20), order.count_replaced(32), order.count_replaced(33), order.count_replaced(0)
        (4, 1, 0, 5)
        """
        if self.step is None or step > self.step:
            return 0
        counted = sum(span[2] - _count_before(step, span) for span in self.spans)
        return min(self.row_count, counted + max(0, self.spans[0][0] - step) // (self.stride or 1))

    def changes_data(self, observation: Observation) -> bool:
        """Return whether a new row has other data than the row before it; a row without a version has the same data.

        Rows that a rewind replaces are not before it.
        """
        version = observation.data_version
        if version is None:
            return False
        before = (earlier for begun, earlier in reversed(self.versions) if begun < observation.step)
        return next(before, version) != version

    def advance(self, observation: Observation) -> None:
        """Make a new row the newest."""
        if self.resumes(observation):
            self.row_count -= self.count_replaced(observation.step)
            left = [[*span[:2], _count_before(observation.step, span)] for span in self.spans]
            self.spans = [span for span in left if span[2]]
            self.versions = [each for each in self.versions if each[0] < observation.step]
        elif self.step is not None:
            distance = observation.step - self.step
            if self.stride is None or distance < self.stride:
                self.stride = distance
        self.row_count += 1
        self._add(observation.step)
        self.attempt, self.step = observation.attempt, observation.step
        version = observation.data_version
        if version is not None and (not self.versions or self.versions[-1][1] != version):
            self.versions = [*self.versions, [observation.step, version]][-MOST_VERSIONS:]

    def _add(self, step: int) -> None:
        """Add a row to the spans."""
        if self.spans:
            newest = self.spans[-1]
            first, distance, count = newest
            if count == 1:
                newest[1:] = step - first, 2
                return
            if step == first + distance * count:
                newest[2] += 1
                return
        self.spans.append([step, 1, 1])
        del self.spans[:-MOST_SPANS]

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state.

        Of the rows and the data of an older version's state only the newest are known; no rewind takes that data back.
        """
        super().load(state)
        if "spans" not in state and state.get("step") is not None:
            self.spans = [[state["step"], 1, 1]]
        if state.get("data_version") is not None:
            self.versions = [[-1, state["data_version"]]]


def _count_before(step: int, span: Sequence[int]) -> int:
    """Return the number of rows of a span before a step: ⌈(step − first) / distance⌉, at most all of them."""
    first, distance, count = span
    return min(count, max(0, -((first - step) // distance)))


class StreamDetector(Stateful):
    """Base of the detectors: accepts observations in any order and passes each new step to `_observe` once, in order.

    A detector is deterministic, constant in memory, and resumable: a detector that is restored from ``state()`` returns
    the same findings as the original. A finding is returned at every step at which it holds, not only at its first.

    Attributes:
        kind: Kind of the findings.
        severity: Severity of the findings, unless the evidence sets another.
        reads: Canonical names of the signals that the detector reads.
        skips_rows_without: Whether a row without any of ``reads`` changes nothing, so that it need not be processed.
    """

    kind: ClassVar[str]
    severity: ClassVar[Severity]
    reads: ClassVar[tuple[str, ...]]
    skips_rows_without: ClassVar[bool] = False

    def __init__(self) -> None:
        self._order = RowOrder()
        self._saves_order = True

    @property
    def has_ended(self) -> bool:
        """Whether no later row of the run can change the detector or cause a finding."""
        return False

    @property
    def attempt(self) -> int | None:
        """The attempt of the newest step."""
        return self._order.attempt

    @property
    def step(self) -> int | None:
        """The newest step."""
        return self._order.step

    def update(self, observation: Observation) -> Sequence[Finding]:
        """Process one step and return the findings that hold; a step that was already seen returns none."""
        if not self._order.is_new(observation):
            return ()
        self._prepare(observation)
        self._order.advance(observation)
        return self._observe(observation)

    def _prepare(self, observation: Observation) -> None:
        if self._order.resumes(observation):
            if replaced := self._order.count_replaced(observation.step):
                self.take_back(replaced, self._order.row_count - replaced)
            self._resume(observation.step)
        if self._order.changes_data(observation):
            self._rebaseline()

    def state(self) -> dict[str, Any]:
        """Return the complete state for a restart. It includes the newest position, unless a group saves that."""
        return self._order.state() | super().state() if self._saves_order else super().state()

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        self._order.load(state)
        super().load(state)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Process a person's acknowledgement; detectors whose findings end by themselves ignore it."""

    def _replaces_rows(self, step: int) -> bool:
        """Return whether an attempt that begins at a step goes back, so that processed rows no longer count."""
        return self.step is not None and step <= self.step

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        """Process one new step and return the findings that hold."""
        raise NotImplementedError

    def _resume(self, step: int) -> None:
        """Prepare for a new process that continues from ``step``, which may be an earlier step."""

    def _rebaseline(self) -> None:
        """Discard levels from before a change of the data, because they cannot be compared with the new ones."""

    def _finding(self, observation: Observation, summary: str, /, **evidence: Any) -> Finding:  # noqa: ANN401 - JSON values
        """Build a finding; ``statistic`` and ``threshold`` are required in ``evidence``.

        ``kind`` and ``severity`` in it replace the detector's own. The positional arguments have no names, because
        Python compares every key of the evidence with every such name.
        """
        severity, kind = evidence.pop("severity", self.severity), evidence.pop("kind", self.kind)
        evidence.setdefault("calibration", DETECTOR_VERSION)
        if "agreeing" not in evidence:
            evidence["agreeing"] = []
        if "missing" not in evidence:
            evidence["missing"] = list_missing(observation.finite, self.reads)
        score, threshold = float(evidence["statistic"]), float(evidence["threshold"])
        return Finding(kind, severity, observation.step, score, threshold, summary, evidence)


class DetectorGroup:
    """Detectors that process the same rows; the order of the rows is checked once for all of them.

    Args:
        detectors: Fresh detectors, in the order in which they are updated.
    """

    def __init__(self, detectors: Iterable[StreamDetector]) -> None:
        self._detectors = list(detectors)
        self._order = RowOrder()
        for detector in self._detectors:
            detector._order = self._order  # noqa: SLF001 - of this module
            detector._saves_order = False  # noqa: SLF001 - of this module
        self._names: KeysView[str]
        self._concerned: list[StreamDetector]
        self._select({})

    def update(self, observation: Observation) -> list[Finding]:
        """Process one step and return the findings that hold; a step that was already seen returns none."""
        order = self._order
        if not order.is_new(observation):
            return []
        if order.resumes(observation) or order.changes_data(observation):
            for detector in self._detectors:
                detector._prepare(observation)  # noqa: SLF001 - of this module
        order.advance(observation)
        if observation.signals.keys() != self._names:
            self._select(observation.signals)
        elif not observation.step % ROWS_PER_SELECTION:
            self._concerned = [detector for detector in self._concerned if not detector.has_ended]
        findings: list[Finding] = []
        for detector in self._concerned:
            found = detector._observe(observation)  # noqa: SLF001 - of this module
            if found:
                findings += found
        return findings

    def count_replaced(self, observation: Observation) -> tuple[int, int]:
        """Return the number of rows that a new row replaces, if its attempt goes back, and of the rows before it."""
        replaced = self._order.count_replaced(observation.step) if self._order.resumes(observation) else 0
        return replaced, self._order.row_count - replaced

    def state(self) -> dict[str, Any]:
        """Return the newest position, which its detectors share; each of them has a state of its own."""
        return self._order.state()

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved position. Older versions saved it with each detector, which then restores it."""
        self._order.load(state)

    def _select(self, signals: Mapping[str, float]) -> None:
        """Select the detectors that a row with these signals concerns; most runs send the same signals in every row.

        A finished check of the first rows concerns no further row, and leaves the selection some rows later.
        """
        self._names = dict.fromkeys(signals).keys()
        self._concerned = [
            detector
            for detector in self._detectors
            if not detector.has_ended and not (detector.skips_rows_without and self._names.isdisjoint(detector.reads))
        ]
