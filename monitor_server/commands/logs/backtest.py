"""`rlvitals backtest FOLDER`: report what the detectors would have found in finished runs.

It reads logs, runs the live engine over them, and prints. It reads no labels and computes no score.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor_server.commands.errors import CommandError
from monitor_server.commands.logs.paths import log_path
from monitor_server.commands.terminal import error, printable, say
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Severity
from monitor_server.importers.calibration_file import load_calibration
from monitor_server.importers.mapping import NameMapping, name_unread_keys, parse_overrides
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog, without_steps
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe
from monitor_server.log_check.backtest import backtest, summarise
from monitor_server.log_check.reports.document import spell_non_finite
from monitor_server.log_check.reports.wording import size

__all__ = ["run"]


def run(
    *,
    folder: Annotated[Path, typer.Argument(help="A log, or a folder of logs or of run folders.", parser=log_path)],
    calibration: Annotated[
        Path | None, typer.Option(help="File of `rlvitals calibrate`; without it the built-in thresholds apply.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    names: Annotated[
        list[str] | None, typer.Option("--map", metavar="SIGNAL=KEY", help="Read a signal from this key of the log.")
    ] = None,
) -> int:
    """Print what the detectors would have found; the exit status is 1 if a log cannot be read."""
    runs: list[dict[str, Any]] = []
    read: list[RecordedLog] = []
    mappings: list[NameMapping] = []
    status = 0
    try:
        loaded = load_calibration(calibration)
        overrides = parse_overrides(names or [])
        for log in find_logs([folder], list(overrides.values()), error):
            mapping, report = NameMapping(overrides, log.aliases), ReadReport()
            try:
                steps = observe(log.read(report), mapping.signals, report)
                runs.append(backtest(log.name, steps, engine=Engine(loaded)))
            except LogError as failure:  # the other logs are still read
                error(failure)
                status = 1
                continue
            read.append(log)
            mappings.append(mapping)
            for remark in report.remarks:
                error(f"{log.name}: {remark}")
        for line in name_unread_keys(mappings):
            error(line)
        if runs and not any(entry["rows"] for entry in runs):
            raise LogError(without_steps(read[0]))
    except OSError as failure:
        raise CommandError(str(failure)) from failure
    if not runs:
        return status
    result = {"runs": runs, "summary": summarise(runs)}
    say(json.dumps(spell_non_finite(result), allow_nan=False) if as_json else _table(result))
    return status


def _table(report: dict[str, Any]) -> str:
    width = max([len(printable(entry["run"])) for entry in report["runs"]], default=3)
    lines = [f"{'run':{width}}  {'rows':>6}  {'warned':>7}  {'paged':>7}  first finding"]
    for entry in report["runs"]:
        alarms = [finding for finding in entry["findings"] if finding["severity"] != Severity.INFO]
        marks = [_mark(entry[key]) for key in ("warn_step", "page_step")]
        first = f"{alarms[0]['kind']}: {alarms[0]['summary']}" if alarms else ""
        lines.append(
            f"{printable(entry['run']):{width}}  {entry['rows']:6}  {marks[0]:>7}  {marks[1]:>7}  {printable(first)}"
        )
    summary = report["summary"]
    lines.append(
        f"{size(summary['runs'], 'run')}, {size(summary['rows'], 'row')}: "
        f"{summary['warned']} warned, {summary['paged']} paged; "
        f"{summary['warn_episodes']} warning and {summary['page_episodes']} paging episodes",
    )
    return "\n".join(lines)


def _mark(step: int | None) -> str:
    return "-" if step is None else str(step)
