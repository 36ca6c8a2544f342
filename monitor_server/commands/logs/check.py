"""`rlvitals check PATH…`: a verdict on any existing log, without a server."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from monitor_server.commands.errors import EXIT_INTERRUPTED, CommandError, require_libraries
from monitor_server.commands.logs.paths import log_path, require_place, write_page
from monitor_server.commands.terminal import error, printable, say
from monitor_server.detection.engine import Engine, EngineFactory
from monitor_server.detection.protocol import Finding, Severity
from monitor_server.durations import DAY_SECONDS
from monitor_server.importers.calibration_file import load_calibration
from monitor_server.importers.mapping import name_unread_keys, parse_overrides
from monitor_server.importers.protocol import LogError, RecordedLog, without_steps
from monitor_server.importers.search.logs import find_logs
from monitor_server.log_check.examination import Examination, Outcome, examine
from monitor_server.log_check.growing_log import follow
from monitor_server.log_check.reports.document import document
from monitor_server.log_check.reports.page import page
from monitor_server.log_check.reports.terminal import print_report, print_summary

__all__ = ["EXIT_FAILED", "EXIT_NOT_OBSERVED", "run"]

# Exit statuses of --fail-on. As for every command, 1 is the status of a `CommandError`, such as one about options that
# exclude each other, and 2 that of an unknown option and of a value out of range.
EXIT_FAILED = 3
EXIT_NOT_OBSERVED = 4
DETAILED = 3
PASSED_OVER_SHOWN = 20
SAVING = ("--gpus", "--step-seconds")
# Larger numbers are mistakes, and infinity would be reported as saved hours.
MOST_GPUS, MOST_SECONDS = 10**7, 1e7
QUIET_SECONDS = 1.0
INTERVAL_SECONDS = 5.0
MOST_INTERVAL_SECONDS = DAY_SECONDS  # the clock of the system cannot wait for ever


class FailOn(StrEnum):
    """The lowest severity that fails."""

    WARNING = "warning"
    CRITICAL = "critical"


def run(
    *,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Logs, or folders of logs.", show_default=False, parser=log_path)
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Check a recorded collapse that comes with rlvitals.")
    ] = False,
    names: Annotated[
        list[str] | None, typer.Option("--map", metavar="SIGNAL=KEY", help="Read a signal from this key of the log.")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_GPUS, help="Number of accelerators of the run, to compute the saved hours."),
    ] = None,
    step_seconds: Annotated[
        float | None,
        typer.Option(min=0.0, max=MOST_SECONDS, help="Seconds of a step; without it, the times in the log are used."),
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="File of `rlvitals calibrate`; without it the built-in thresholds apply.")
    ] = None,
    fail_on: Annotated[
        FailOn | None, typer.Option(help="Exit with status 3 at an alarm of this severity, for CI.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one self-contained page.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Open the runs in the dashboard.")] = False,
    following: Annotated[bool, typer.Option("--follow", help="Watch a log that is being written.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.05,
            max=MOST_INTERVAL_SECONDS,
            help="With --follow: seconds between two reads of the log.",
            show_default=f"{INTERVAL_SECONDS:g}",
        ),
    ] = None,
) -> int:
    """Check logs; the exit status is 0 unless --fail-on determines another one."""
    with resources.as_file(resources.files("monitor_server.log_check") / "sample") as folder:
        given = [*(paths or []), *([folder / "search-agent.jsonl.gz"] if sample else [])]
        _require(given)
        options: dict[str, object] = {"--json": as_json, "--html": html, "--serve": serve, "--fail-on": fail_on}
        options |= {"--gpus": gpus, "--step-seconds": step_seconds, "--interval": interval}
        asked = [option for option, value in options.items() if value is not None and value is not False]
        try:
            overrides = parse_overrides(names or [])
            if following:
                _refuse(asked, "--follow prints a line for each change", ["--json", "--html", "--serve", *SAVING])
                seconds = interval or INTERVAL_SECONDS
                return _follow(given, overrides, seconds, EngineFactory(load_calibration(calibration)), fail_on)
            _refuse(asked, "a check without --follow reads the logs once", ["--interval"])
            passed_over: list[str] = []
            logs = find_logs(given, list(overrides.values()), passed_over.append)
            if html is not None:
                require_place(html, logs)
            _print_passed_over(passed_over)
            if serve:
                _refuse(asked, "--serve opens a dashboard", ["--json", "--html", "--fail-on", *SAVING])
                return _serve(logs, overrides, calibration)
            examinations = _examine(logs, overrides, calibration, passed_over)
        except LogError as failure:
            raise CommandError(str(failure)) from failure
        except KeyboardInterrupt:
            if following or serve:  # these commands end in this way
                return 0
            error("interrupted before the logs were read; there is no verdict")
            return EXIT_INTERRUPTED
    if html is not None:
        write_page(html, page(examinations, gpus=gpus, step_seconds=step_seconds))
    if as_json:
        say(json.dumps(document(examinations, gpus=gpus, step_seconds=step_seconds), allow_nan=False))
    else:
        _print(examinations, gpus, step_seconds)
        if html is not None:
            say(f"\nwritten to {printable(html)}")
    return _status(examinations, fail_on, is_complete=not passed_over)


def _require(paths: Sequence[Path]) -> None:
    if not paths:
        raise CommandError("name a log or a folder of logs, or try `rlvitals check --sample`")


def _refuse(asked: Sequence[str], what: str, without: Sequence[str]) -> None:
    """Refuse options that would have no effect, because a user would notice a missing report too late."""
    useless = [option for option in asked if option in without]
    if useless:
        raise CommandError(f"{what} and cannot be combined with {', '.join(useless)}")


def _print_passed_over(reasons: Sequence[str]) -> None:
    for reason in reasons[:PASSED_OVER_SHOWN]:
        error(reason)
    if len(reasons) > PASSED_OVER_SHOWN:
        error(f"{len(reasons) - PASSED_OVER_SHOWN} other files and folders were passed over")


def _serve(logs: Sequence[RecordedLog], overrides: Mapping[str, str], calibration: Path | None) -> int:
    # The collector runs without dash, and would have no page to open.
    require_libraries("check --serve", "uvicorn", "dash", extras="server,dashboard")
    from monitor_server.commands.logs.serving import serve_logs  # noqa: PLC0415 - needs the extra of the server

    load_calibration(calibration)  # an unusable one is refused before a collector starts
    return serve_logs(logs, overrides, calibration)


def _examine(
    logs: Sequence[RecordedLog], overrides: Mapping[str, str], calibration: Path | None, passed_over: list[str]
) -> list[Examination]:
    """Examine each log; one that is unreadable or has no step is skipped and listed, unless there is no other."""
    loaded = load_calibration(calibration)
    found: list[Examination] = []
    with _progress() as progress:
        for log in logs:
            try:
                found.append(examine(log, engine=Engine(loaded), overrides=overrides, progress=progress))
            except LogError as failure:
                if len(logs) == 1:
                    raise
                passed_over.append(f"{log.path} was passed over: {failure}")
                error(passed_over[-1])
    if not any(each.rows for each in found):
        problems = "".join(f"; {line}" for each in found for line in _first_remark(each))
        raise LogError(f"{without_steps(logs[0])}{problems}")
    begun = ["; ".join([without_steps(each.log), *_first_remark(each)]) for each in found if not each.rows]
    _print_passed_over(begun)
    passed_over += begun
    return [each for each in found if each.rows]


def _first_remark(examined: Examination) -> list[str]:
    """Return the first problem or note of a log, if it has one."""
    return [*examined.report.problems, *examined.report.notes][:1]


@contextmanager
def _progress() -> Iterator[Callable[[Examination], None]]:
    """Show the log that is being read on a terminal, if it takes longer than a second."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    begun = time.monotonic()
    with console.status("") as status:

        def show(found: Examination) -> None:
            if time.monotonic() - begun > QUIET_SECONDS:
                read = f"{found.report.bytes_read / 1e6:,.0f} MB, {found.rows:,} steps"
                status.update(Text(f"{printable(found.log.name)}: {read}"))

        yield show


def _print(examinations: Sequence[Examination], gpus: int | None, step_seconds: float | None) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    if len(examinations) > DETAILED:
        print_summary(console, examinations)
        console.print(Text(f"\n{len(examinations)} runs; name one of them for its report"))
        return
    for number, found in enumerate(examinations):
        if number:
            console.rule()
        print_report(console, found, gpus=gpus, step_seconds=step_seconds)


def _status(examinations: Sequence[Examination], fail_on: FailOn | None, *, is_complete: bool) -> int:
    if fail_on is None:
        return 0
    outcomes = {found.outcome for found in examinations}
    if Outcome.CRITICAL in outcomes or (fail_on is FailOn.WARNING and Outcome.WARNING in outcomes):
        return EXIT_FAILED
    unread = name_unread_keys([found.mapping for found in examinations])
    return EXIT_NOT_OBSERVED if Outcome.NOT_OBSERVED in outcomes or unread or not is_complete else 0


def _follow(
    paths: Sequence[Path], overrides: Mapping[str, str], seconds: float, engines: EngineFactory, fail_on: FailOn | None
) -> int:
    if len(paths) != 1:
        raise CommandError(f"--follow must have one log or folder to watch, got {len(paths)}")
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(Text(f"watching {printable(paths[0])}; Ctrl-C ends it"))
    failing = {Severity.CRITICAL} | ({Severity.WARNING} if fail_on is FailOn.WARNING else set())
    for found, began, is_replaced in follow(
        paths[0], seconds=seconds, engines=engines, overrides=overrides, waiting=error
    ):
        if is_replaced:
            console.print(Text("the log was emptied or replaced; the check begins anew"))
        for finding in began:
            console.print(Text(_line(finding)))
        phase = found.phases[-1].phase if found.phases else "unknown"
        console.print(Text(f"step {found.last_step:>6}  {phase}"))
        sys.stdout.flush()
        if fail_on is not None and any(finding.severity in failing for finding in began):
            return EXIT_FAILED
    return 0


def _line(finding: Finding) -> str:
    return (
        f"step {finding.step:>6}  {finding.severity.upper()}  {printable(finding.kind)}: {printable(finding.summary)}"
    )
