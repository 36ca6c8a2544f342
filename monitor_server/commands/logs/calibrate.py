"""`rlvitals calibrate RUNS…`: compute thresholds from a user's own healthy runs, as a file for serve and backtest.

It reads runs as `backtest` does, scores each with the engine at its built-in thresholds, and writes the thresholds of
the conformal rule in `monitor_server.detection.calibration`.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor_server.commands.terminal import error, printable, say
from monitor_server.detection.base_classes.detector import CALIBRATION
from monitor_server.detection.calibration import (
    CLASSES,
    Calibration,
    Profile,
    RunScore,
    conformal_factor,
    runs_needed,
)
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search import find_logs
from monitor_server.importers.steps import observe

__all__ = ["calibrate", "run", "score_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A calibration, or None, and the lines that explain it."""

    calibration: Calibration | None
    lines: Sequence[str]


def run(
    *,
    runs: Annotated[list[Path], typer.Argument(help="Logs of healthy runs, or folders of them.")],
    warn: Annotated[float, typer.Option(metavar="SHARE", help="Largest share of healthy runs warned.")] = 0.05,
    page: Annotated[float, typer.Option(metavar="SHARE", help="Largest share of healthy runs paged.")] = 0.01,
    write: Annotated[Path, typer.Option(help="File to write.")] = Path("calibration.json"),
) -> int:
    """Calibrate, explain the result and write the file; the exit status is 2 where nothing could be calibrated."""
    for name, share in (("warn", warn), ("page", page)):
        if not 0.0 < share < 1.0:
            error(f"--{name} must lie between 0 and 1, got {share}")
            return 2
    try:
        scores = {
            f"{log.path} {log.name}": score_run(
                observe(log.read(ReadReport()), NameMapping(aliases=log.aliases).signals),
            )
            for log in find_logs(runs, passed_over=error)
        }
    except OSError as failure:
        error(failure)
        return 2
    report = calibrate(scores, warn=warn, page=page)
    say("\n".join(printable(line) for line in report.lines))
    if report.calibration is None:
        return 2
    content = _content(report.calibration) | {"share_warned": warn, "share_paged": page}
    write.write_text(json.dumps(content, indent=1) + "\n")
    say(f"{report.calibration.id} written to {write}; RLVITALS_CALIBRATION={write} uses it")
    return 0


def score_run(steps: Iterable[Observation]) -> RunScore:
    """Compute a run's scores at the built-in thresholds."""
    engine, score = Engine(), RunScore()
    for observation in steps:
        score.update(observation, engine.update(observation).findings)
    return score


def calibrate(scores: Mapping[str, RunScore], *, warn: float, page: float) -> Report:
    """Compute the calibration that healthy runs allow, for each batch class by itself.

    Args:
        scores: By run.
        warn: Largest share of healthy runs that may be warned or paged.
        page: Largest share that may be paged.
    """
    profiles: dict[str, Profile] = {}
    lines: list[str] = []
    for name in CLASSES:
        kept = {run: score for run, score in scores.items() if score.batch_class == name}
        lines.append(f"{name}: {len(kept)} healthy runs")
        if not kept:
            continue
        lines += _loudest(kept)
        warned = _factor([score.warn for score in kept.values()], warn, "warned", lines)
        paged = _factor([score.page for score in kept.values()], page, "paged", lines)
        if warned is not None or paged is not None:
            profiles[name] = Profile(warn=warned or 0.0, page=paged or 0.0)
    if not profiles:
        return Report(calibration=None, lines=[*lines, "nothing was calibrated; the built-in thresholds stand"])
    digest = hashlib.sha256(json.dumps({k: asdict(v) for k, v in profiles.items()}).encode()).hexdigest()[:8]
    return Report(calibration=Calibration(id=f"own-{digest}", profiles=profiles), lines=lines)


def _factor(scores: Sequence[float], share: float, what: str, lines: list[str]) -> float | None:
    count, needed = len(scores), runs_needed(share)
    factor = conformal_factor(scores, share)
    rank = f"rank {math.ceil((count + 1) * (1.0 - share) - 1e-9)} of {count}"
    if factor is None:
        lines.append(
            f"  {what}: not calibrated. At most {share:g} of healthy runs needs n >= 1/{share:g} - 1 = {needed} runs, "
            f"got {count}: add {needed - count}, or ask for {1.0 / (count + 1):.3g} at least"
        )
    elif math.isinf(factor):
        lines.append(f"  {what}: not calibrated. {rank} is an alarm that no threshold moves: are these runs healthy?")
        return None
    else:
        alarmed = sum(score > 0.0 for score in scores)
        held = f"strength beyond {factor:.3g}" if factor > 0.0 else "built-in thresholds"
        lines.append(f"  {what}: {alarmed} at the built-in thresholds; {held} ({rank}, at most {share:g} of new ones)")
    return factor


def _loudest(kept: Mapping[str, RunScore]) -> list[str]:
    """Name the runs that alarmed, because one run that is not healthy raises everybody's threshold."""
    alarmed = sorted(((score.warn, run) for run, score in kept.items() if score.warn > 0.0), reverse=True)[:5]
    return [
        f"  {run}: " + ", ".join(f"{kind} {strength:.3g}" for kind, strength in kept[run].kinds.items())
        for _, run in alarmed
    ]


def _content(calibration: Calibration) -> dict[str, Any]:
    profiles = {name: asdict(profile) for name, profile in calibration.profiles.items()}
    return {"id": calibration.id, "detectors": CALIBRATION, "profiles": profiles}
