"""`rlvitals reassess`: replay the judged runs of a collector with this version's detectors, and compare the alarms.

``--save`` writes the alarms of this version to a file, and ``--against`` compares with those of other versions.
"""

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor_server.alerts.kinds import MONITOR_DEGRADED
from monitor_server.alerts.liveness import is_clock_kind
from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, download, fetch_items, fetch_json, path_part
from monitor_server.commands.collector.reassess.alarm_comparison import (
    CURRENT,
    RECORDED,
    Alarms,
    CriticalAlert,
    JudgedRun,
    Measures,
    find_worse,
    find_wrong_spans,
    measure,
    page_episodes,
)
from monitor_server.commands.collector.reassess.replayed_alerts import replay_alarms
from monitor_server.commands.collector.reassess.saved_alarms import SavedAlarms, SavedRun, load_all, name_version, save
from monitor_server.commands.errors import CommandError
from monitor_server.commands.terminal import error, printable, say, table
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from monitor_server.detection.calibration import Calibration
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import RULE_PREFIX
from monitor_server.importers.calibration_file import load_calibration
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import LogError, ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe

__all__ = ["run"]

WORSE = 3


def run(
    *,
    calibration: Annotated[
        Path | None, typer.Option(help="File of `rlvitals calibrate`; without it the built-in thresholds apply.")
    ] = None,
    gpus: Annotated[float, typer.Option(help="Number of GPUs of a run, to compute GPU-hours.")] = 1.0,
    save_to: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the alarms of this version to a file.")
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="File of `--save` of another version to compare with; repeatable."),
    ] = None,
    accept_worse: Annotated[
        bool, typer.Option("--accept-worse", help="Exit with status 0 even if this version is worse.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    url: CollectorUrl = DEFAULT_URL,
) -> int:
    """Print the value of the alarms of each version; the exit status is 3 if this version is worse than another."""
    if not 0.0 < gpus < math.inf:
        raise CommandError(f"--gpus must be above 0 and finite, got {gpus:g}")
    loaded, others = load_calibration(calibration), load_all(against or ())
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            _replay(url, listed, judged, others, calibration=loaded, file=Path(folder) / "run.jsonl")
            for listed in fetch_items(url, "/runs")
            if (judged := _judgements(url, listed["id"]))
        ]
    if not runs:
        unsaved = "" if save_to is None else f"; {printable(str(save_to))} was not written"
        say(f"no alarm was judged yet: `rlvitals alerts --right ID` or `--wrong ID` judges one{unsaved}")
        return 0
    if save_to is not None:
        save(save_to, _alarms_to_save(runs, loaded))
    measures = {name: measure(runs, name, gpus=gpus) for name in (RECORDED, *others, CURRENT)}
    worse = {name: find_worse(runs, name) for name in (RECORDED, *others)}
    _print(runs, measures, worse, tried=loaded, as_json=as_json)
    losses = [f"{name} in {len(lines)} of {measures[name].runs} judged runs" for name, lines in worse.items() if lines]
    if losses and not accept_worse:
        error(f"this version is worse than {', than '.join(losses)}; --accept-worse accepts it")
        return WORSE
    return 0


def _judgements(url: str, run_id: str) -> list[Mapping[str, Any]]:
    """Return the judgements of a run; a right alert about the collector itself says nothing about the run."""
    items = fetch_json("GET", url, f"/runs/{path_part(run_id)}/judgements")["items"]
    return [item for item in items if item["kind"] != MONITOR_DEGRADED]


def _alarms_to_save(runs: Sequence[JudgedRun], calibration: Calibration) -> SavedAlarms:
    alarms = {run.id: run.alarms[CURRENT] for run in runs}
    saved = {name: SavedRun(pages=list(found.pages), is_warned=found.is_warned) for name, found in alarms.items()}
    return SavedAlarms(detectors=DETECTOR_VERSION, calibration=calibration.id, runs=saved)


def _replay(
    url: str,
    listed: Mapping[str, Any],
    judged: Sequence[Mapping[str, Any]],
    others: Mapping[str, SavedAlarms],
    *,
    calibration: Calibration,
    file: Path,
) -> JudgedRun:
    """Read a judged run from the collector, run this version's detectors on it, and add the saved alarms in it."""
    path = f"/runs/{path_part(listed['id'])}"
    alerts = [alert for alert in fetch_items(url, f"{path}/alerts") if _is_of_detectors(alert["kind"])]
    download(url, f"{path}/export?format=jsonl", file)
    try:
        (log,) = find_logs([file])
        steps = list(observe(log.read(ReadReport()), NameMapping(aliases=log.aliases).signals))
    except (LogError, ValueError) as failure:
        raise CommandError(f"the export of run {listed['id']} must be readable, got: {failure}") from failure
    pages = [alert for alert in reversed(alerts) if alert["severity"] == "critical"]
    critical = [CriticalAlert.of_item(alert) for alert in pages]
    is_right = {judgement["alert_id"]: judgement["is_right"] for judgement in judged}
    failed = [item["failed_at"] for item in judged if item["is_right"] and item["failed_at"] is not None]
    saved = {name: version.runs[listed["id"]] for name, version in others.items() if listed["id"] in version.runs}
    return JudgedRun(
        id=listed["id"],
        name=f"{listed['project']}/{listed['name']}",
        has_failed=any(judgement["is_right"] for judgement in judged),
        failed_at=min(failed, default=None),
        alarms={
            RECORDED: Alarms(pages=page_episodes(critical), is_warned=any(a["severity"] != "info" for a in alerts)),
            **{name: Alarms(pages=run.pages, is_warned=run.is_warned) for name, run in saved.items()},
            CURRENT: replay_alarms(steps, Engine(calibration)),
        },
        wrong_spans=find_wrong_spans(critical, [is_right.get(alert["id"]) for alert in pages]),
        times={observation.step: observation.time for observation in steps if observation.time is not None},
    )


def _is_of_detectors(kind: str) -> bool:
    """Return whether the detectors find alerts of this kind, so that a replay can find them too."""
    return not (is_clock_kind(kind) or kind.startswith(RULE_PREFIX) or kind == MONITOR_DEGRADED)


def _print(
    runs: Sequence[JudgedRun],
    measures: Mapping[str, Measures],
    worse: Mapping[str, Sequence[str]],
    *,
    tried: Calibration,
    as_json: bool,
) -> None:
    if as_json:
        content = {
            "runs": len(runs),
            "failing": sum(run.has_failed for run in runs),
            "detectors": DETECTOR_VERSION,
            "calibration": tried.id,
            "worse": list(worse[RECORDED]),
            "against": {
                name: _content(measures[name]) | {"worse": list(lines)}
                for name, lines in worse.items()
                if name != RECORDED
            },
        } | {name: _content(measures[name]) for name in (RECORDED, CURRENT)}
        say(json.dumps(content))
        return
    failed = sum(run.has_failed for run in runs)
    say(f"judged runs: {len(runs)}, failed: {failed}; {name_version(DETECTOR_VERSION, tried.id)}")
    header = ("alarms", "judged runs", "pages right", "median lead, steps", "nights disturbed", "GPU-hours saved")
    table(header, [[printable(name), *_cells(found)] for name, found in measures.items()])
    for name, lines in worse.items():
        for line in lines:
            say(printable(f"worse than {name}: {line}"))


def _content(found: Measures) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Measures.__slots__}


def _cells(found: Measures) -> list[str]:
    return [
        str(found.runs),
        f"{found.right_pages} of {found.pages}",
        "not known" if found.lead is None else f"{found.lead:g}",
        "not known" if found.nights is None else str(found.nights),
        "not known" if found.gpu_hours is None else f"{found.gpu_hours:.1f}",
    ]
