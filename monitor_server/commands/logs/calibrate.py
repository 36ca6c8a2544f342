"""`rlvitals calibrate RUNS…`: compute thresholds from a user's own healthy runs, as a file for serve and backtest.

It reads runs as `backtest` does, scores each with the engine at its built-in thresholds, and writes the thresholds of
the conformal rule in `monitor_server.detection.calibration`. If the user states in how many steps one false page is
allowed, it also writes the warranty that those runs give, from `monitor_server.detection.false_alarm_budget`. The file
also contains the expected ranges of the signals, which charts show.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor_server.commands.errors import CommandError
from monitor_server.commands.logs.paths import log_path, require_no_log
from monitor_server.commands.logs.same_runs import DistinctLogs, Fingerprint
from monitor_server.commands.terminal import error, printable, say
from monitor_server.configuration_files.writing import open_for_writing
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from monitor_server.detection.calibration import (
    CLASSES,
    Calibration,
    Profile,
    RunScore,
    conformal_factor,
    runs_needed,
)
from monitor_server.detection.engine import Engine
from monitor_server.detection.expected_ranges import LEAST_RUNS, ExpectedRange, expected_ranges
from monitor_server.detection.false_alarm_budget import Warranty
from monitor_server.detection.protocol import Observation
from monitor_server.durations import HOUR_SECONDS
from monitor_server.importers.mapping import NameMapping, name_unread_keys, parse_overrides
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe
from monitor_server.log_check.reports.wording import size

__all__ = ["calibrate", "run", "score_run"]

LEAST_STEPS = 1e-3  # steps for one false page; a smaller number is a mistake, and cannot be used as a divisor
NAMED_RUNS = 5  # of those that are refused, or that have the strongest alarms


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A calibration, or None, and the lines that explain it."""

    calibration: Calibration | None
    lines: Sequence[str]


def run(
    *,
    runs: Annotated[list[Path], typer.Argument(help="Logs of healthy runs, or folders of them.", parser=log_path)],
    warn: Annotated[
        float, typer.Option(metavar="SHARE", help="Largest share of healthy runs in which a warning may open.")
    ] = 0.05,
    page: Annotated[
        float, typer.Option(metavar="SHARE", help="Largest share of healthy runs in which a page may open.")
    ] = 0.01,
    one_page_in: Annotated[
        float | None,
        typer.Option(metavar="STEPS", help="Warranty: at most one false page in this many recorded steps."),
    ] = None,
    one_page_in_gpu_hours: Annotated[
        float | None,
        typer.Option(metavar="HOURS", help="The warranty in GPU-hours; needs --gpus and --step-seconds."),
    ] = None,
    gpus: Annotated[float | None, typer.Option(help="Number of GPUs of a run, to compute GPU-hours.")] = None,
    step_seconds: Annotated[
        float | None, typer.Option(help="Seconds of a recorded step, to compute GPU-hours.")
    ] = None,
    names: Annotated[
        list[str] | None, typer.Option("--map", metavar="SIGNAL=KEY", help="Read a signal from this key of the log.")
    ] = None,
    write: Annotated[Path, typer.Option(help="File to write.")] = Path("calibration.json"),
) -> int:
    """Calibrate, explain the result and write the file; the exit status is 1 if no calibration was possible."""
    for name, share in (("warn", warn), ("page", page)):
        if not 0.0 < share < 1.0:
            error(f"--{name} must lie between 0 and 1, got {share}")
            return 2
    try:
        steps_per_page = _steps_per_page(one_page_in, one_page_in_gpu_hours, gpus, step_seconds)
    except ValueError as failure:
        error(failure)
        return 2
    try:
        overrides = parse_overrides(names or [])
        logs = find_logs(runs, list(overrides.values()), error)
        require_no_log(write, logs, option="--write")
        scores = _score_logs(logs, overrides)
    except OSError as failure:
        raise CommandError(str(failure)) from failure
    result = calibrate(
        scores, warn=warn, page=page, steps_per_page=steps_per_page, gpu_hours_per_page=one_page_in_gpu_hours
    )
    say("\n".join(printable(line) for line in result.lines))
    if result.calibration is None:
        return 1
    content = _content(result.calibration) | {"share_warned": warn, "share_paged": page}
    try:
        with open_for_writing(write) as file:
            file.write(json.dumps(content, indent=1).encode() + b"\n")
    except OSError as failure:
        raise CommandError(f"--write must name a file that can be written: {failure}") from failure
    say(f"{result.calibration.id} written to {write}; RLVITALS_CALIBRATION={write} uses it")
    return 0


def _score_logs(logs: Iterable[RecordedLog], overrides: Mapping[str, str]) -> dict[str, RunScore]:
    """Return the score of each run by its name; a log that is of no use is named and left out."""
    scores: dict[str, RunScore] = {}
    distinct = DistinctLogs()
    mappings: list[NameMapping] = []
    for log in logs:
        report, name, fingerprint = ReadReport(), f"{log.path} {log.name}", Fingerprint()
        mapping = NameMapping(overrides, log.aliases)
        steps = observe(log.read(report), mapping.signals, report)
        try:
            score = score_run(_noted(steps, fingerprint.update))
        except LogError as failure:  # the other logs are still read
            error(f"{failure}; it was left out")
            continue
        mappings.append(mapping)
        if (unusable := _unusable(report, score)) is not None:
            error(f"{name} {unusable}")
            continue
        scores[name] = score
        for remark in report.remarks:
            error(f"{name}: {remark}")
        if (same := distinct.add(name, fingerprint)) is not None:
            error(f"{same.reason}: a warranty needs other runs")
            del scores[same.left_out]
    for line in name_unread_keys(mappings):
        error(line)
    return scores


def _noted(steps: Iterable[Observation], note: Callable[[Observation], None]) -> Iterable[Observation]:
    """Yield steps, and pass each one to ``note``, by which another log of the run is recognised."""
    for observation in steps:
        note(observation)
        yield observation


def _unusable(report: ReadReport, score: RunScore) -> str | None:
    """Return why nothing is learned from a run that was read; None if it is used."""
    if not score.steps:
        return "has no logged step, so no threshold can be calibrated on it; it was left out"
    if report.is_quarantined:
        return "lacks the steps that its collector could not process, so it is not known to be healthy; it was left out"
    if report.is_thinned:
        return "lacks steps that retention has removed, so its alarms are others; it was left out"
    return None


def score_run(steps: Iterable[Observation]) -> RunScore:
    """Compute a run's scores at the built-in thresholds."""
    engine, score = Engine(), RunScore()
    for observation in steps:
        score.update(observation, engine.update(observation).findings)
    return score


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
    learnt = _encode_computed(calibration)
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


def _steps_per_page(
    steps: float | None, gpu_hours: float | None, gpus: float | None, step_seconds: float | None
) -> float | None:
    """Return the recorded steps in which one false page is wanted, or None if nothing is stated.

    Raises:
        ValueError: If a number is impossible, or GPU-hours cannot be converted.
    """
    given = {
        "--one-page-in": steps,
        "--one-page-in-gpu-hours": gpu_hours,
        "--gpus": gpus,
        "--step-seconds": step_seconds,
    }
    for name, value in given.items():
        if value is not None and not 0.0 < value < math.inf:
            raise ValueError(f"{name} must be above 0 and finite, got {value:g}")
    if steps is not None and steps < LEAST_STEPS:
        raise ValueError(f"--one-page-in must be at least {LEAST_STEPS:g} steps, got {steps:g}")
    if gpu_hours is None and (gpus is not None or step_seconds is not None):
        raise ValueError("--gpus and --step-seconds convert --one-page-in-gpu-hours, and have no effect without it")
    if gpu_hours is None:
        return steps
    if steps is not None or gpus is None or step_seconds is None:
        raise ValueError("--one-page-in-gpu-hours needs --gpus and --step-seconds, and no --one-page-in")
    converted = gpu_hours * HOUR_SECONDS / gpus / step_seconds
    if not LEAST_STEPS <= converted < math.inf:
        raise ValueError(
            f"--one-page-in-gpu-hours must be a finite number of steps, {LEAST_STEPS:g} at least, got {converted:g}; "
            "check --gpus and --step-seconds"
        )
    return converted


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


def _content(calibration: Calibration) -> dict[str, Any]:
    content = {"id": calibration.id, "detectors": DETECTOR_VERSION, "profiles": {}}
    content |= _encode_computed(calibration)
    if calibration.expected:
        content["expected"] = {signal: asdict(held) for signal, held in calibration.expected.items()}
    return content


def _encode_computed(calibration: Calibration) -> dict[str, Any]:
    """Return the computed values as JSON values; without a warranty, only the profiles, as in earlier versions."""
    learnt: dict[str, Any] = {"profiles": {name: asdict(profile) for name, profile in calibration.profiles.items()}}
    return learnt if calibration.warranty is None else learnt | {"warranty": asdict(calibration.warranty)}
