"""Our engine as a candidate: warn is severity warning or above, page is critical. Replay, timing, determinism."""

import json
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.detection.authored.observe import PAIRED
from benchmarks.detection.runs import LabelledRun
from benchmarks.detection.scoring.traces import Candidate, Mark, Opening
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Assessment, Observation, Severity

__all__ = [
    "ENGINE",
    "ENGINE_STANDARD",
    "duplicate_mismatches",
    "engines",
    "restart_mismatches",
    "without_pairs",
]

ENGINE = "rlvitals, paired channel"
ENGINE_STANDARD = "rlvitals, standard metrics"


def engines() -> list[Candidate]:
    """Return the engine with the paired channel and without."""
    return [
        Candidate(name=ENGINE, replay=_replay),
        Candidate(name=ENGINE_STANDARD, replay=lambda observations: _replay(without_pairs(observations))),
    ]


def without_pairs(observations: Sequence[Observation]) -> list[Observation]:
    """Return the observations as a trainer without paired re-scoring would send them."""
    return [
        replace(observation, signals={name: value for name, value in observation.signals.items() if name != PAIRED})
        for observation in observations
    ]


def restart_mismatches(runs: Sequence[LabelledRun], *, every: int = 17) -> int:
    """Count the runs on which an engine that is restarted from its state every few rows gives other assessments.

    The state goes through JSON each time, as it does in the store.
    """
    return sum(_restarted(run.observations, every) != _verdicts(run.observations) for run in runs)


def duplicate_mismatches(runs: Sequence[LabelledRun]) -> int:
    """Count the runs on which an engine that receives every row twice gives other assessments."""
    return sum(_duplicated(run.observations) != _verdicts(run.observations) for run in runs)


def _replay(observations: Sequence[Observation]) -> list[Mark]:
    engine = Engine()
    return [_mark(engine.update(observation)) for observation in observations]


def _mark(assessment: Assessment) -> Mark:
    alarms = [finding for finding in assessment.findings if finding.severity is not Severity.INFO]
    pages = [finding.strength for finding in alarms if finding.severity is Severity.CRITICAL]
    found = [Opening(f.step, f.kind, f.summary, f.severity is Severity.CRITICAL) for f in alarms]
    strongest = max((finding.strength for finding in alarms), default=0.0)
    return Mark(warn=strongest, page=max(pages, default=0.0), phase=assessment.phase, found=found)


def _verdicts(observations: Sequence[Observation]) -> list[str]:
    engine = Engine()
    return [repr(engine.update(observation)) for observation in observations]


def _duplicated(observations: Sequence[Observation]) -> list[str]:
    engine, seen = Engine(), []
    for observation in observations:
        seen.append(repr(engine.update(observation)))
        engine.update(observation)
    return seen


def _restarted(observations: Sequence[Observation], every: int) -> list[str]:
    engine, seen = Engine(), []
    for row, observation in enumerate(observations):
        if row % every == every - 1:
            engine = Engine.from_state(json.loads(json.dumps(engine.state())))
        seen.append(repr(engine.update(observation)))
    return seen
