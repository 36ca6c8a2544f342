"""Runs a run's complete steps through its detectors, once and in order; alerts and phases follow each assessment.

The state of the detectors is saved in the transaction of the last step that they have processed, so that a restart
continues from there. Engines are kept in memory with the revision of their run, and loaded again if another collector
has projected the run meanwhile. `completion` decides which steps are complete.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import msgspec

from monitor_server.alerts.kinds import MONITOR_DEGRADED
from monitor_server.alerts.liveness import is_clock_kind
from monitor_server.detection.protocol import (
    RULE_PREFIX,
    Acknowledgement,
    Assessment,
    Finding,
    Observation,
    Phase,
    Severity,
)
from monitor_server.rules.evaluation import RuleTracker
from monitor_server.step_processing.run_context import RunContext
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.detection import SavedState
from monitor_server.store.repositories.runs import Run
from monitor_server.store.repositories.steps import Step

__all__ = ["DetectionEngine", "DetectionEngineFactory", "Tracker"]

log = logging.getLogger(__name__)


class DetectionEngine(Protocol):
    """All detectors of one run and its phase machine: `monitor_server.detection.engine.Engine`."""

    def update(self, observation: Observation) -> Assessment:
        """Process one step."""

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Process a person's acknowledgement of an alert."""

    def state(self) -> dict[str, Any]:
        """Return the complete state that is needed to continue."""


class DetectionEngineFactory(Protocol):
    """Builds engines: `monitor_server.detection.engine.EngineFactory`."""

    def __call__(self) -> DetectionEngine:
        """Build the engine of a new run."""

    def from_state(self, state: Mapping[str, Any]) -> DetectionEngine:
        """Build the engine of a run that continues."""


@dataclass(slots=True)
class _TrackedEngine:
    engine: DetectionEngine
    seen: tuple[int, int] | None  # attempt and step
    revision: int
    is_stored: bool
    is_changed: bool = False


class Tracker:
    """Detection for many runs. Their engines stay in memory between steps.

    Args:
        engine: Builds the detectors of a run.
        rules: The user's own rules, which process the same steps as the detectors.
        max_runs: The number of runs that are kept in memory.
        on_seconds: Called with the seconds that the detectors took for a step.
    """

    def __init__(
        self,
        engine: DetectionEngineFactory,
        *,
        rules: RuleTracker | None = None,
        max_runs: int = 512,
        on_seconds: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.rules = rules or RuleTracker()
        self._engine = engine
        self._max_runs = max_runs
        self._on_seconds = on_seconds
        self._tracked: dict[str, _TrackedEngine] = {}

    @property
    def runs_in_memory(self) -> int:
        """The number of runs that are kept in memory."""
        return len(self._tracked)

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, from memory, because the store did not accept the change."""
        self.rules.forget(run_id)
        if run_id is None:
            self._tracked.clear()
        else:
            self._tracked.pop(run_id, None)

    def observe(self, context: RunContext, step: Step) -> list[Alert]:
        """Detect on a complete step. A step that is not newer than the last one changes nothing.

        Returns:
            The alerts that opened, became more severe or resolved.
        """
        tracked = self._track(context)
        if tracked.seen is not None and (step.attempt, step.step) <= tracked.seen:
            return []
        return self._observe(context, tracked, step)

    def start_anew(self, context: RunContext, step: Step) -> list[Alert]:
        """Detect on a step with new detectors; the phases from this step on are written again.

        Returns:
            The alerts that opened, became more severe or resolved.
        """
        tracked = self._track(context)
        tracked.engine = self._engine()
        return self._observe(context, tracked, step)

    def acknowledge(self, context: RunContext, kind: str) -> tuple[int, int] | None:
        """Pass an acknowledgement of alerts of a kind to the detectors.

        Returns:
            Attempt and step of the newest step that they had processed, at which a replay repeats the acknowledgement;
            None if they have processed no step yet.
        """
        tracked = self._track(context)
        if tracked.seen is not None:
            attempt, step = tracked.seen
            tracked.engine.acknowledge(Acknowledgement(kind=kind, attempt=attempt, step=step))
            tracked.is_changed = True
        return tracked.seen

    def encode(self, context: RunContext) -> SavedState | None:
        """Return the state of the run's detectors to be written, or None if it has not changed."""
        tracked = self._tracked.get(context.run.id)
        if tracked is None or tracked.revision != context.run.revision:
            return None  # this slice had nothing to detect
        if not tracked.is_changed or tracked.seen is None:
            return None
        attempt, step = tracked.seen
        return SavedState(attempt=attempt, step=step, state=msgspec.msgpack.encode(tracked.engine.state()))

    def save(self, repositories: Repositories, run: Run, saved: SavedState | None) -> None:
        """Write an encoded state with the revision that the run is about to have."""
        tracked = self._tracked.get(run.id)
        if tracked is None or tracked.revision != run.revision:
            return  # another collector has projected the run, and this slice had nothing to detect
        tracked.revision = run.revision + 1
        if saved is not None:
            repositories.detector_states.save(run.id, saved, first=not tracked.is_stored)
            tracked.is_stored, tracked.is_changed = True, False

    def _observe(self, context: RunContext, tracked: _TrackedEngine, step: Step) -> list[Alert]:
        run, last = context.run, tracked.seen
        assessment, error = self._detect(run, tracked.engine, step)
        tracked.seen, tracked.is_changed = (step.attempt, step.step), True
        # Detectors that begin anew replace all phases from here on, including those that were found before a reset.
        rewinds = last is None or step.step <= last[1]
        if rewinds or assessment.phase != run.phase:
            run.phase = str(assessment.phase)
            context.defer(_change_of_phase(run.id, run.phase, step=step.step, rewinds=rewinds))
        rules, reasons = self.rules.observe(context.repositories, run, step, now=context.now)
        return context.alerts.reconcile(
            [*assessment.findings, *rules],
            phase=run.phase,
            step=step.step,
            now=context.now,
            concerns=lambda kind: not is_clock_kind(kind) if error is None else _is_known_without_detection(kind),
            rewinds=rewinds,
            continues=not rewinds and last is not None and step.attempt == last[0],
            reasons=reasons,
        )

    def _detect(self, run: Run, engine: DetectionEngine, step: Step) -> tuple[Assessment, Exception | None]:
        """Return the assessment of a step, and the error of detection if it says nothing about other findings."""
        observation = Observation(
            step=step.step,
            signals=step.signals,
            attempt=step.attempt,
            time=step.time,
            data_version=step.data_version,
        )
        begin = perf_counter()
        try:
            return engine.update(observation), None
        except Exception as error:  # an error of a detector must not cost the trainer its records
            log.exception("detection failed at step %d of run %s", step.step, run.id)
            return _degraded_assessment(step.step, error), error
        finally:
            self._on_seconds(perf_counter() - begin)

    def _track(self, context: RunContext) -> _TrackedEngine:
        run = context.run
        tracked = self._tracked.pop(run.id, None)
        if tracked is None or tracked.revision != run.revision:
            saved = context.repositories.detector_states.load(run.id)
            if saved is None:
                tracked = _TrackedEngine(self._engine(), None, run.revision, is_stored=False)
            else:
                engine = self._engine.from_state(msgspec.msgpack.decode(saved.state))
                tracked = _TrackedEngine(engine, (saved.attempt, saved.step), run.revision, is_stored=True)
        self._tracked[run.id] = tracked  # the newest entry is last, and the first entry is dropped
        if len(self._tracked) > self._max_runs:
            del self._tracked[next(iter(self._tracked))]
        return tracked


def _change_of_phase(run_id: str, phase: str, *, step: int, rewinds: bool) -> Callable[[Repositories], None]:
    def write(repositories: Repositories) -> None:
        if rewinds:
            repositories.phases.rewind(run_id, step)
        repositories.phases.begin(run_id, phase, step=step)

    return write


def _is_known_without_detection(kind: str) -> bool:
    """Whether a step tells if an alert of a kind still holds, although detection has failed at the step."""
    return kind == MONITOR_DEGRADED or kind.startswith(RULE_PREFIX)


def _degraded_assessment(step: int, error: Exception) -> Assessment:
    finding = Finding(
        kind=MONITOR_DEGRADED,
        severity=Severity.WARNING,
        step=step,
        score=1.0,
        threshold=0.0,
        summary=f"detection failed at step {step}: {type(error).__name__}; the collector's log has the traceback",
        evidence={"error": type(error).__name__, "detail": str(error)},
    )
    return Assessment(step=step, phase=Phase.UNKNOWN, findings=[finding])
