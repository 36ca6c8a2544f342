"""The calibration that a user's healthy runs allow, and the lines that explain it to the user."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from monitor_server.detection.calibration import (
    CLASSES,
    Calibration,
    Profile,
    RunScore,
    conformal_factor,
    runs_needed,
)
from monitor_server.detection.expected_ranges import LEAST_RUNS, ExpectedRange, expected_ranges
from monitor_server.detection.false_alarm_budget import Warranty
from monitor_server.importers.calibration_file import encode_computed
from monitor_server.log_check.reports.wording import size

__all__ = ["Report", "calibrate"]

NAMED_RUNS = 5  # of those that are refused, or that have the strongest alarms


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A calibration, or None, and the lines that explain it."""

    calibration: Calibration | None
    lines: Sequence[str]


def calibrate(
    scores: Mapping[str, RunScore],
    *,
    warn: float,
    page: float,
    steps_per_page: float | None = None,
    gpu_hours_per_page: float | None = None,
) -> Report:
    """Compute the calibration that healthy runs allow, separately for each batch class.

    A run with an alarm without a degree, such as a NaN, is not known to be healthy: nothing is computed from a folder
    with one, because its steps would count as healthy ones, and no threshold is beyond such an alarm.

    Args:
        scores: By run.
        warn: Largest share of healthy runs that may be warned or paged.
        page: Largest share that may be paged.
        steps_per_page: Recorded steps in which at most one false page is wanted; None makes no warranty. It applies to
            the runs of all batch classes together, and is written even if there are too few runs for it yet.
        gpu_hours_per_page: The same number in GPU-hours, if the user stated it so.
    """
    if refused := _name_refused_runs(scores):
        return Report(calibration=None, lines=refused)
    profiles: dict[str, Profile] = {}
    lines: list[str] = []
    for name in CLASSES:
        kept = {run: score for run, score in scores.items() if score.batch_class == name}
        lines.append(f"{name}: {size(len(kept), 'healthy run')}")
        if not kept:
            continue
        lines += _name_loudest_runs(kept)
        warned = _factor([score.warn for score in kept.values()], warn, "warned", lines)
        paged = _factor([score.page for score in kept.values()], page, "paged", lines)
        if warned is not None or paged is not None:
            profiles[name] = Profile(warn=warned or 0.0, page=paged or 0.0)
    warranty = None
    if steps_per_page is not None:
        runs = [(score.steps, score.page) for score in scores.values()]
        warranty = Warranty.of_runs(steps_per_page, runs, gpu_hours_per_page=gpu_hours_per_page)
        lines += _explain(warranty)
    if not profiles:
        lines.append("no threshold was calibrated; the built-in thresholds stand")
    expected = _learn_ranges(scores, lines)
    if not profiles and warranty is None:
        ranges = Calibration(expected=expected)  # findings continue to name the built-in thresholds
        return Report(calibration=ranges if expected else None, lines=lines)
    calibration = Calibration(id="own", profiles=profiles, warranty=warranty, expected=expected)
    learnt = encode_computed(calibration)
    digest = hashlib.sha256(json.dumps(learnt if warranty else learnt["profiles"]).encode()).hexdigest()[:8]
    return Report(calibration=replace(calibration, id=f"own-{digest}"), lines=lines)


def _name_refused_runs(scores: Mapping[str, RunScore]) -> list[str]:
    """Name the runs with an alarm without a degree, each with the step and the values; empty without such a run."""
    found = [(run, score.fact) for run, score in scores.items() if score.fact is not None]
    if not found:
        return []
    counted = f"{len(found)} of {size(len(scores), 'run')}"
    lines = [f"not calibrated: {counted} cannot be healthy, because no threshold moves an alarm that has no degree"]
    lines += [f"  {run}: {fact.kind} at step {fact.step}: {fact.summary}" for run, fact in found[:NAMED_RUNS]]
    if len(found) > NAMED_RUNS:
        lines.append(f"  and {len(found) - NAMED_RUNS} more")
    return [*lines, "  leave them out, or correct the values if they are mistakes of the log, and calibrate again"]


def _explain(warranty: Warranty) -> list[str]:
    """Explain what a new run may open under a warranty, or what is missing for it."""
    lines = [f"warranty: {warranty.describe()}"]
    if not warranty.is_in_force:
        return [*lines, "  until then all pages open, and each states that there is no warranty"]
    needed = warranty.strength_needed
    held = f"of strength {needed:.3g} or more" if needed > 1.0 else "of any strength"
    most = math.floor(warranty.steps / warranty.steps_per_page)
    return [*lines, f"  the first page of a run opens if it is {held}; a run has at most {most}"]


def _learn_ranges(scores: Mapping[str, RunScore], lines: list[str]) -> dict[str, ExpectedRange]:
    """Learn the ranges of healthy runs' values."""
    expected = expected_ranges(score.values for score in scores.values())
    if not expected:
        lines.append(f"expected ranges: none. They need {LEAST_RUNS} healthy runs with the same signals")
    else:
        longest = max(held.steps[-1] for held in expected.values())  # the end of an interval, which runs may not reach
        lines.append(
            f"expected ranges: {len(expected)} signals in intervals before step {longest}, from {len(scores)} runs"
        )
    return expected


def _factor(scores: Sequence[float], share: float, what: str, lines: list[str]) -> float | None:
    count, needed = len(scores), runs_needed(share)
    factor = conformal_factor(scores, share)
    rank = f"rank {math.ceil((count + 1) * (1.0 - share) - 1e-9)} of {count}"
    if factor is None:
        lines.append(
            f"  {what}: not calibrated. At most {share:g} of healthy runs needs n >= 1/{share:g} - 1 = {needed} runs, "
            f"got {count}: add {needed - count}, or ask for {1.0 / (count + 1):.3g} at least"
        )
    else:
        alarmed = sum(score > 0.0 for score in scores)
        held = f"strength beyond {factor:.3g}" if factor > 0.0 else "built-in thresholds"
        lines.append(f"  {what}: {alarmed} at the built-in thresholds; {held} ({rank}, at most {share:g} of new ones)")
    return factor


def _name_loudest_runs(kept: Mapping[str, RunScore]) -> list[str]:
    """Name the runs with alarms, because one unhealthy run raises the threshold for all."""
    alarmed = sorted(((score.warn, run) for run, score in kept.items() if score.warn > 0.0), reverse=True)[:NAMED_RUNS]
    return [
        f"  {run}: " + ", ".join(f"{kind} {strength:.3g}" for kind, strength in kept[run].kinds.items())
        for _, run in alarmed
    ]
