"""Runs the live engine on one log and keeps the data for a report; memory does not grow with the log."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum

from monitor_server.detection.engine import Engine, EngineFactory
from monitor_server.detection.protocol import DriftInput, Finding, Observation, Phase, Severity
from monitor_server.detection.registry import DETECTORS
from monitor_server.detection.suspects import doubts
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport, RecordedLog
from monitor_server.importers.steps import observe
from monitor_server.log_check.envelopes import Envelope

__all__ = ["Examination", "Examiner", "FindingPeriod", "Outcome", "PhaseSpan", "examine"]

MAX_EPISODES = 1000
# The time between two logged steps is their median over this many; a pause over a night has no effect.
MAX_INTERVALS = 512
# Four months; a larger number, which may be infinite, is a mistake of the log.
MAX_INTERVAL_SECONDS = 1e7
READ_SIGNALS = frozenset(name for detector in DETECTORS.values() for name in detector.reads)


class Outcome(StrEnum):
    """The result of a check, by the most severe finding."""

    CRITICAL = "critical"
    WARNING = "warning"
    QUIET = "quiet"
    """The detectors found nothing in the logged signals."""
    NOT_OBSERVED = "not observed"
    """No signal was logged that a detector reads, or the log lacks the later steps of the run."""


@dataclass(slots=True, kw_only=True)
class FindingPeriod:
    """The steps over which findings of one kind at one severity or above held without a gap."""

    finding: Finding
    last_step: int


@dataclass(slots=True, kw_only=True)
class PhaseSpan:
    """A phase and the steps over which it held in one attempt, both ends included; ``rows`` counts them."""

    phase: Phase
    from_step: int
    to_step: int
    rows: int = 1


@dataclass(slots=True, kw_only=True)
class Examination:
    """The result for one log."""

    log: RecordedLog
    mapping: NameMapping
    report: ReadReport
    rows: int = 0
    attempts: int = 1
    first_step: int = 0
    last_step: int = 0
    warn_step: int | None = None
    """The first step with a finding at warning or above."""
    page_step: int | None = None
    """The first step with a critical finding."""
    alarm_rows: list[int] = field(default_factory=list)
    """The rows, from 0, of ``warn_step`` and ``page_step``: in a log that goes back, a step is in several rows."""
    collapse_step: int | None = None
    """The first step of the phase ``collapsed``."""
    trained: int = 0
    """The steps trained since the first row; in a log that goes back, those that were trained again count again."""
    trained_at_warning: int = 0
    trained_at_page: int = 0
    trained_at_collapse: int = 0
    drift_input: DriftInput = DriftInput.METRICS
    step_seconds: float | None = None
    """The median time between two logged steps, if the log has times."""
    phases: list[PhaseSpan] = field(default_factory=list)
    episodes: list[FindingPeriod] = field(default_factory=list)
    envelopes: dict[str, Envelope] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """The result by the most severe finding. A run without an observed signal is never healthy."""
        if self.page_step is not None:
            return Outcome.CRITICAL
        if self.warn_step is not None:
            return Outcome.WARNING
        return Outcome.QUIET if self.observed and not self.report.is_quarantined else Outcome.NOT_OBSERVED

    @property
    def notes(self) -> list[str]:
        """Remarks about the steps and the names for readers of the result, each one sentence."""
        return [*self.report.notes, *self.mapping.notes]

    @property
    def lead(self) -> int | None:
        """The steps trained from the first alarm to the collapse; None if there was no alarm or no collapse."""
        if self.warn_step is None or self.collapse_step is None:
            return None
        return self.trained_at_collapse - self.trained_at_warning

    @property
    def step_range(self) -> tuple[int, int]:
        """The lowest and the highest step. A log that goes back begins or ends at another step."""
        ends = [step for span in self.phases for step in (span.from_step, span.to_step)]
        return min([self.first_step, self.last_step, *ends]), max([self.first_step, self.last_step, *ends])

    @property
    def observed(self) -> frozenset[str]:
        """The logged signals that a detector reads, without the learning rate, which is a configuration."""
        return READ_SIGNALS & self.envelopes.keys() - {"lr"}

    def doubts(self, period: FindingPeriod) -> list[str]:
        """Return the kinds found at the same time because of which the instrument is to be checked first."""
        first, last = period.finding.step, period.last_step
        together = [each for each in self.episodes if each.finding.step <= last and first <= each.last_step]
        return doubts(period.finding.kind, [each.finding.kind for each in together])

    @property
    def blind_detectors(self) -> dict[str, Sequence[str]]:
        """The detectors without any logged signal, with their signals."""
        return {name: each.reads for name, each in DETECTORS.items() if not self.envelopes.keys() & set(each.reads)}


def examine(
    log: RecordedLog,
    *,
    engine: Engine | None = None,
    overrides: Mapping[str, str] | None = None,
    progress: Callable[[Examination], None] = lambda _: None,
) -> Examination:
    """Run the engine over a log.

    Args:
        log: The log.
        engine: A fresh engine, calibrated or not.
        overrides: Signal → the log's own key.
        progress: Called from time to time with the examination so far.

    Raises:
        LogError: If the log cannot be read at all.
    """
    found = Examination(log=log, mapping=NameMapping(overrides, log.aliases), report=ReadReport())
    examiner = Examiner(found, engine or Engine())
    for observation in observe(log.read(found.report), found.mapping.signals, found.report):
        examiner.take(observation)
        if found.rows % 256 == 0:
            progress(found)
    return found


class Examiner:
    """Processes the steps of one run in order and keeps its `Examination` up to date."""

    def __init__(self, examination: Examination, engine: Engine) -> None:
        self.examination, self._engine = examination, engine
        self._open: dict[str, FindingPeriod] = {}
        self._time: float | None = None
        self._intervals: list[float] = []

    def copy(self, engines: EngineFactory) -> "Examiner":
        """Return another examiner that has processed the same steps, with an engine built by ``engines``."""
        engine = engines.from_state(deepcopy(self._engine.state()))
        found = self.examination
        shared = {id(each): each for each in (found.log, found.mapping, found.report)}
        return deepcopy(self, {id(self._engine): engine, **shared})

    def take(self, observation: Observation) -> Sequence[Finding]:
        """Process one step and return the findings that begin with it or become more severe."""
        found, step = self.examination, observation.step
        if not found.rows:
            found.first_step = step
        else:
            found.trained += max(1, step - found.last_step)
        found.rows += 1
        found.attempts = observation.attempt
        found.last_step = step
        for signal, value in observation.signals.items():
            envelope = found.envelopes.get(signal)
            if envelope is None:
                envelope = found.envelopes[signal] = Envelope()
            envelope.add(step, value)
        self._take_time(observation.time)
        assessment = self._engine.update(observation)
        if assessment.drift_input is not found.drift_input:
            found.drift_input = min(found.drift_input, assessment.drift_input, key=list(DriftInput).index)
        self._take_phase(assessment.phase, step)
        if not assessment.findings:
            self._open = {}
            return ()
        severities = {finding.severity for finding in assessment.findings}
        if found.warn_step is None and severities - {Severity.INFO}:
            found.warn_step, found.trained_at_warning = step, found.trained
            found.alarm_rows.append(found.rows - 1)
        if found.page_step is None and Severity.CRITICAL in severities:
            found.page_step, found.trained_at_page = step, found.trained
            found.alarm_rows.append(found.rows - 1)
        return self._take_findings(assessment.findings, step)

    def _take_time(self, time: float | None) -> None:
        if (
            time is not None
            and self._time is not None
            and 0.0 < time - self._time <= MAX_INTERVAL_SECONDS
            and len(self._intervals) < MAX_INTERVALS
        ):
            self._intervals.append(time - self._time)
            self.examination.step_seconds = sorted(self._intervals)[len(self._intervals) // 2]
        self._time = time

    def _take_phase(self, phase: Phase, step: int) -> None:
        phases = self.examination.phases
        if phase is Phase.COLLAPSED and self.examination.collapse_step is None:
            self.examination.collapse_step, self.examination.trained_at_collapse = step, self.examination.trained
        if phases and phases[-1].phase is phase and phases[-1].to_step <= step:
            phases[-1].to_step = step
            phases[-1].rows += 1
        elif len(phases) < MAX_EPISODES:
            phases.append(PhaseSpan(phase=phase, from_step=step, to_step=step))

    def _take_findings(self, findings: Sequence[Finding], step: int) -> Sequence[Finding]:
        began = []
        held: dict[str, FindingPeriod] = {}
        for finding in findings:
            episode = self._open.get(finding.kind)
            is_repeated = episode is not None and episode.finding.step >= step  # the run went back
            if episode is None or is_repeated or finding.severity.rank > episode.finding.severity.rank:
                episode = FindingPeriod(finding=finding, last_step=step)
                if len(self.examination.episodes) < MAX_EPISODES:
                    self.examination.episodes.append(episode)
                began.append(finding)
            episode.last_step = step
            held[finding.kind] = episode
        self._open = held
        return began
