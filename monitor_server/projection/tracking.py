"""Takes a run's complete steps through its detectors, once and in order, and keeps what they say.

The detectors' state is saved in the transaction of the last step it has seen, so that a restart goes on from there.
Alerts and phases follow each verdict. Which steps are complete is `pipeline`'s business.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import msgspec

from monitor_server.alerts.liveness import is_clock_kind
from monitor_server.detection.protocol import Acknowledgement, Finding, Observation, Phase, Severity, Verdict
from monitor_server.projection.work import Work
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.detection import SavedState
from monitor_server.store.repositories.runs import Run
from monitor_server.store.repositories.steps import Step

__all__ = ["Engine", "EngineFactory", "Tracker"]

log = logging.getLogger(__name__)


class Engine(Protocol):
    """All detectors of one run and its phase machine: `monitor_server.detection.engine.Engine`."""

    def update(self, observation: Observation) -> Verdict:
        """Take one step."""

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Take a person's word on an alert."""

    def state(self) -> dict[str, Any]:
        """Give everything needed to go on."""


class EngineFactory(Protocol):
    """Builds engines: `monitor_server.detection.engine.EngineFactory`."""

    def __call__(self) -> Engine:
        """Build the engine of a new run."""

    def from_state(self, state: Mapping[str, Any]) -> Engine:
        """Build the engine of a run that continues."""


@dataclass(slots=True)
class _Watched:
    engine: Engine
    seen: tuple[int, int] | None  # attempt and step
    is_saved: bool


class Tracker:
    """Detection of many runs, their engines kept in memory between steps."""

    def __init__(
        self, engine: EngineFactory, *, max_runs: int = 512, on_seconds: Callable[[float], None] = lambda _: None
    ) -> None:
        self._engine = engine
        self._max_runs = max_runs
        self._on_seconds = on_seconds
        self._watched: dict[str, _Watched] = {}

    def forget(self, run_id: str | None = None) -> None:
        """Drop what is in memory of a run, or of all: the store did not take it."""
        if run_id is None:
            self._watched.clear()
        else:
            self._watched.pop(run_id, None)

    def observe(self, work: Work, steps: Sequence[Step]) -> list[Alert]:
        """Take complete steps, in order; one that is not newer than the last is not detected again.

        Returns:
            The alerts that opened, became more severe or resolved.
        """
        watched = self._watch(work.repositories, work.run.id)
        changed: list[Alert] = []
        taken = False
        for step in steps:
            if watched.seen is None or (step.attempt, step.step) > watched.seen:
                changed += self._take(work, watched, step)
                taken = True
        if taken:
            self._save(work, watched)
        return changed

    def acknowledge(self, work: Work, kind: str) -> tuple[int, int] | None:
        """Give a person's word on alerts of a kind to the detectors.

        Returns:
            Attempt and step of the newest that they had taken, which is where a replay has to give it again; None where
            they have taken nothing yet.
        """
        watched = self._watch(work.repositories, work.run.id)
        if watched.seen is not None:
            attempt, step = watched.seen
            watched.engine.acknowledge(Acknowledgement(kind=kind, attempt=attempt, step=step))
            self._save(work, watched)
        return watched.seen

    def _save(self, work: Work, watched: _Watched) -> None:
        if watched.seen is None:
            return
        attempt, step = watched.seen
        saved = SavedState(attempt=attempt, step=step, state=msgspec.msgpack.encode(watched.engine.state()))
        work.repositories.detector_states.save(work.run.id, saved, first=not watched.is_saved)
        watched.is_saved = True

    def _take(self, work: Work, watched: _Watched, step: Step) -> list[Alert]:
        run, phases = work.run, work.repositories.phases
        last = watched.seen
        verdict = self._detect(run, watched.engine, step)
        watched.seen = (step.attempt, step.step)
        rewinds = last is not None and step.step <= last[1]
        if rewinds:
            phases.rewind(run.id, step.step)
        if last is None or rewinds or verdict.phase != run.phase:
            phases.begin(run.id, verdict.phase, step=step.step)
            run.phase = str(verdict.phase)
        return work.alerts.reconcile(
            verdict.findings,
            phase=run.phase,
            step=step.step,
            now=work.now,
            concerns=lambda kind: not is_clock_kind(kind),
        )

    def _detect(self, run: Run, engine: Engine, step: Step) -> Verdict:
        observation = Observation(
            step=step.step,
            signals=step.signals,
            attempt=step.attempt,
            time=step.time,
            data_version=step.data_version,
        )
        begin = perf_counter()
        try:
            return engine.update(observation)
        except Exception as error:  # a detector's fault must not cost the trainer its records
            log.exception("detection failed at step %d of run %s", step.step, run.id)
            return _degraded(step.step, error)
        finally:
            self._on_seconds(perf_counter() - begin)

    def _watch(self, repositories: Repositories, run_id: str) -> _Watched:
        watched = self._watched.pop(run_id, None)
        if watched is None:
            saved = repositories.detector_states.load(run_id)
            if saved is None:
                watched = _Watched(self._engine(), None, is_saved=False)
            else:
                engine = self._engine.from_state(msgspec.msgpack.decode(saved.state))
                watched = _Watched(engine, (saved.attempt, saved.step), is_saved=True)
        self._watched[run_id] = watched  # the newest last, so that the first is the one to drop
        if len(self._watched) > self._max_runs:
            del self._watched[next(iter(self._watched))]
        return watched


def _degraded(step: int, error: Exception) -> Verdict:
    finding = Finding(
        kind="monitor_degraded",
        severity=Severity.WARNING,
        step=step,
        score=1.0,
        threshold=0.0,
        summary=f"detection failed at step {step}: {type(error).__name__}; the collector's log has the traceback",
        evidence={"error": type(error).__name__, "detail": str(error)},
    )
    return Verdict(step=step, phase=Phase.UNKNOWN, findings=[finding])
