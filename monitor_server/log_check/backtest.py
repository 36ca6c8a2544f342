"""The backtest: the findings of the live engine in a finished run. It reads no labels and computes no score."""

from collections.abc import Iterable, Sequence
from typing import Any

from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import DriftInput, Finding, Observation, Severity

__all__ = ["backtest", "summarise"]


def backtest(name: str, steps: Iterable[Observation], *, engine: Engine | None = None) -> dict[str, Any]:
    """Run the engine over one run and collect its warnings, its critical alerts and its findings.

    Args:
        name: The name of the run.
        steps: The steps in the order of the log.
        engine: A fresh engine; if left out, one with the built-in calibration.

    Returns:
        ``run``; ``warn_step`` and ``page_step``, the first step with a finding at warning or above, at critical, or
        None; ``warns`` and ``pages``, the steps at which an episode opens; ``rows``; ``drift_input``, the best one at
        any step; and ``findings``, the first of each episode of each kind and severity.
    """
    engine = engine or Engine()
    warns: list[int] = []
    pages: list[int] = []
    opened: list[Finding] = []
    held: dict[tuple[str, Severity], int] = {}  # each with the step at which it began
    rows, drift_input = 0, DriftInput.METRICS
    for observation in steps:
        rows += 1
        assessment = engine.update(observation)
        found = assessment.findings
        drift_input = min(drift_input, assessment.drift_input, key=list(DriftInput).index)
        # What began at a step that the run repeats is found anew, as its alert opens anew.
        held = {which: since for which, since in held.items() if since < observation.step}
        before = {severity for _, severity in held}
        severities = {finding.severity for finding in found}
        if severities - {Severity.INFO} and not before - {Severity.INFO}:
            warns.append(observation.step)
        if Severity.CRITICAL in severities - before:
            pages.append(observation.step)
        opened += [finding for finding in found if (finding.kind, finding.severity) not in held]
        held = {(each.kind, each.severity): held.get((each.kind, each.severity), each.step) for each in found}
    return {
        "run": name,
        "warn_step": next(iter(warns), None),
        "page_step": next(iter(pages), None),
        "warns": warns,
        "pages": pages,
        "rows": rows,
        "drift_input": drift_input,
        "findings": [finding._asdict() for finding in opened],
    }


def summarise(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count runs, rows, warned and paged runs, and episodes."""
    return {
        "runs": len(runs),
        "rows": sum(entry["rows"] for entry in runs),
        "warned": sum(entry["warn_step"] is not None for entry in runs),
        "paged": sum(entry["page_step"] is not None for entry in runs),
        "warn_episodes": sum(len(entry["warns"]) for entry in runs),
        "page_episodes": sum(len(entry["pages"]) for entry in runs),
    }
