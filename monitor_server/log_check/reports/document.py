"""The report of a check as JSON values."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from monitor_server.detection.suspects import suspect_of
from monitor_server.log_check.advice import gaps, saving
from monitor_server.log_check.examination import Examination
from monitor_server.log_check.reports.wording import verdict

__all__ = ["document", "spell_non_finite"]


def document(
    examinations: Sequence[Examination], *, gpus: int | None = None, step_seconds: float | None = None
) -> dict[str, Any]:
    """Return the findings in each log: ``{"runs": [...]}``, with non-finite numbers as text."""
    runs = [_run(found, gpus, step_seconds) for found in examinations]
    spelled: dict[str, Any] = spell_non_finite({"runs": runs})
    return spelled


def _run(found: Examination, gpus: int | None, step_seconds: float | None) -> dict[str, Any]:
    saved = saving(found, gpus=gpus, step_seconds=step_seconds)
    return {
        "run": found.log.name,
        "path": str(found.log.path),
        "format": found.log.format,
        "outcome": found.outcome,
        "verdict": verdict(found),
        "rows": found.rows,
        "first_step": found.first_step,
        "last_step": found.last_step,
        "attempts": found.attempts,
        "warn_step": found.warn_step,
        "page_step": found.page_step,
        "collapse_step": found.collapse_step,
        "drift_input": found.drift_input,
        "step_seconds": found.step_seconds,
        "saved": None if saved is None else dataclasses.asdict(saved),
        "phases": [dataclasses.asdict(span) for span in found.phases],
        "episodes": [
            {
                "first_step": episode.finding.step,
                "last_step": episode.last_step,
                "suspect": suspect_of(episode.finding.kind),
                "instrument_alerts": found.doubts(episode),
                **episode.finding._asdict(),
            }
            for episode in found.episodes
        ],
        "not_logged": [dataclasses.asdict(gap) for gap in gaps(found)],
        "blind_detectors": sorted(found.blind_detectors),
        "names": found.mapping.keys_of_signals(),
        "unknown_keys": found.mapping.unknown(),
        "problems": found.report.problems,
        "problem_count": found.report.problem_count,
        "notes": found.notes,
    }


def spell_non_finite(value: Any) -> Any:  # noqa: ANN401 - walks any JSON tree
    """Replace non-finite numbers in a JSON tree by "NaN", "Infinity" and "-Infinity".

    `trainer_hooks.wire` has the same function, but imports msgspec, which the check of a log does without.
    """
    if isinstance(value, float) and value - value != 0.0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124 - NaN test
    if isinstance(value, dict):
        return {key: spell_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [spell_non_finite(item) for item in value]
    return value
