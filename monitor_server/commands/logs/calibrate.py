"""`rlvitals calibrate RUNS…`: compute thresholds from a user's own healthy runs, as a file for serve and backtest.

It reads runs as `backtest` does, scores each with the engine at its built-in thresholds, and writes the thresholds of
the conformal rule in `monitor_server.detection.calibration`. If the user states in how many steps one false page is
allowed, it also writes the warranty that those runs give, from `monitor_server.detection.false_alarm_budget`. The file
also contains the expected ranges of the signals, which charts show.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from monitor_server.commands.errors import CommandError
from monitor_server.commands.logs.calibration_report import calibrate
from monitor_server.commands.logs.paths import log_path, require_no_log
from monitor_server.commands.logs.same_runs import DistinctLogs, Fingerprint
from monitor_server.commands.terminal import error, printable, say
from monitor_server.configuration_files.writing import open_for_writing
from monitor_server.detection.calibration import RunScore
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation
from monitor_server.durations import HOUR_SECONDS
from monitor_server.importers.calibration_file import encode_calibration
from monitor_server.importers.mapping import NameMapping, name_unread_keys, parse_overrides
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe

__all__ = ["run", "score_run"]

LEAST_STEPS = 1e-3  # steps for one false page; a smaller number is a mistake, and cannot be used as a divisor


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
    content = encode_calibration(result.calibration) | {"share_warned": warn, "share_paged": page}
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
