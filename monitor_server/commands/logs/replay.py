"""`rlvitals replay LOG…`: send finished runs to a collector as if they happened now.

The collector runs the same detectors as on a live run. So the alerts and their steps are the same as in a live run.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from monitor_server.commands.client import BEGINNING_BYTES, DEFAULT_URL, CollectorUrl, fetch
from monitor_server.commands.errors import CommandError, RequestRefusedError
from monitor_server.commands.logs.paths import log_path
from monitor_server.commands.logs.replayed_run import ReplayedRun
from monitor_server.commands.logs.stored_run import require_same_run
from monitor_server.commands.processes import interrupted_by_sigterm
from monitor_server.commands.repeated_requests import repeat_while_busy
from monitor_server.commands.terminal import error, printable, say
from monitor_server.detection.protocol import Observation
from monitor_server.importers.mapping import NameMapping, name_unread_keys, parse_overrides
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog, without_steps
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe
from monitor_server.ingest.recorded_batches import batches
from trainer_hooks import wire

__all__ = ["replay_log", "run"]

LEAST_PACE, MOST_PACE = 0.001, 100_000.0  # steps a second
RECORDS_PER_BATCH = 500
BEATS_PER_SECOND = 4
ANSWER_SECONDS = 60.0
# The numbers of HTTP for what a collector never takes.
REFUSES_THIS = {400, 413, 422}


def run(
    *,
    logs: Annotated[list[Path], typer.Argument(help="Logs, or folders of logs or of run folders.", parser=log_path)],
    url: CollectorUrl = DEFAULT_URL,
    project: Annotated[str, typer.Option(help="Project under which the runs appear.")] = "replay",
    pace: Annotated[float | None, typer.Option(help="Steps per second; without it, as fast as possible.")] = None,
    names: Annotated[
        list[str] | None, typer.Option("--map", metavar="SIGNAL=KEY", help="Read a signal from this key of the log.")
    ] = None,
) -> int:
    """Send every run and print the alerts that the collector opened; the exit status is 1 if no run has a step."""
    if pace is not None and not LEAST_PACE <= pace <= MOST_PACE:  # NaN fails this comparison too
        raise CommandError(
            f"--pace must lie in {LEAST_PACE:g} to {MOST_PACE:,.0f} steps a second, got {pace:g}; "
            "without it a run is sent as fast as possible"
        )
    if not project.isprintable():
        raise CommandError(f"--project must have printable characters, got {printable(project)}")
    has_failed = has_steps = False
    mappings: list[NameMapping] = []
    try:
        overrides = parse_overrides(names or [])
        for log in find_logs(logs, list(overrides.values()), error):
            mapping = NameMapping(overrides, log.aliases, keep_unknown=True)
            try:
                has_steps |= replay_log(log, mapping, url=url, project=project, pace=pace)
                mappings.append(mapping)
            except LogError as failure:  # the other logs are still sent
                error(failure)
                has_failed = True
    except BrokenPipeError:  # the reader of the output has closed it; the root of the commands ends quietly
        raise
    except OSError as failure:
        raise CommandError(str(failure)) from failure
    for line in name_unread_keys(mappings):
        error(line)
    return 0 if has_steps and not has_failed else 1


def replay_log(log: RecordedLog, mapping: NameMapping, *, url: str, project: str, pace: float | None = None) -> bool:
    """Send one run to a collector and print the alerts that it opened, or say that it has no step.

    Returns:
        Whether it has a step. An export of a project may have runs that had just begun.

    Raises:
        CommandError: If the collector does not answer or requires another key.
        LogError: If the log cannot be read, the collector refuses its content, or it has another run of this name.
    """
    name, report = log.name, ReadReport()
    if len(name) > wire.LONGEST_NAME_CHARS or not wire.is_clean_name(name):
        raise LogError(
            f"a run's name must have 1 to {wire.LONGEST_NAME_CHARS} printable characters and no blanks around them, "
            f"got {printable(name, longest=60)!r} in {log.path}; rename it"
        )
    unusable: set[str] = set()
    steps = list(observe(log.read(report), lambda row: _sendable(mapping.signals(row), unusable), report))
    if not steps:
        error(without_steps(log))
        return False
    require_same_run(log, steps, url=url, project=project)
    run = ReplayedRun(url, wire.run_id(project, name))
    say(f"{printable(name)}: {len(steps)} steps, {url}/runs/{run.id}")
    size = RECORDS_PER_BATCH if pace is None else min(RECORDS_PER_BATCH, max(1, round(pace / BEATS_PER_SECOND)))
    _say_notes(report, unusable)
    sent = batches(steps, name=name, project=project, size=size, end=log.end)
    with interrupted_by_sigterm():
        known, left_out = _send_all(sent, steps, run, log, url=url, pace=pace)
    if not run.wait_for_detection(steps[-1].attempt, steps[-1].step):
        say(
            f"  a newer attempt of {printable(name)} is there, so no detector processes these steps; "
            "with another --project they do"
        )
    if known:
        say(f"  {known} steps were there already; another --project sends them again")
    if left_out:
        say(f"  {left_out} numbers of {len(steps)} steps were left out")
    run.print_alerts()
    return True


def _send_all(
    sent: Iterable[wire.Batch],
    steps: Sequence[Observation],
    run: ReplayedRun,
    log: RecordedLog,
    *,
    url: str,
    pace: float | None,
) -> tuple[int, int]:
    """Send batches and acknowledge alerts, and return how many steps were there already and signals were left out."""
    known, left_out = 0, 0
    acknowledged = {(step.attempt, step.step): step.acknowledged for step in steps if step.acknowledged}
    newest: wire.Batch | None = None  # the newest one with a new step
    try:
        for batch in sent:
            begun = time.monotonic()
            receipt = _receipt(_send(batch, log, url), url)
            newest = batch if receipt.duplicates < len(batch.records) else newest
            known += receipt.duplicates
            left_out = _say_losses(receipt, left_out)
            if batch.records:
                last = (batch.attempt, wire.decode_record(batch.records[-1]).step)
                if last in acknowledged:
                    run.acknowledge(acknowledged[last], *last)
            if pace is not None:
                time.sleep(max(0.0, len(batch.records) / pace - (time.monotonic() - begun)))
    except BaseException:
        if newest is not None and newest.end is None:
            _stop(newest, url)
        raise
    return known, left_out


def _stop(newest: wire.Batch, url: str) -> None:
    """Try once to end a run that gets no further steps, because it would be reported as lost later."""
    with suppress(CommandError):
        _post(msgspec.structs.replace(newest, records=[], end="stopped"), url)


def _send(batch: wire.Batch, log: RecordedLog, url: str) -> bytes:
    """Send a batch, and return the answer."""
    try:
        return repeat_while_busy(lambda: _post(batch, url, timeout=ANSWER_SECONDS))
    except RequestRefusedError as refusal:
        if refusal.status not in REFUSES_THIS:
            raise
        raise LogError(f"{log.path} was not sent, or not to its end: {refusal}") from refusal


def _post(batch: wire.Batch, url: str, **options: float) -> bytes:
    headers = {"Content-Type": wire.MSGPACK}
    return fetch("POST", url, "/ingest", body=wire.encode(batch), headers=headers, **options)


def _say_notes(report: ReadReport, unusable: set[str]) -> None:
    """Print the parts of a log that were not read, and those that no collector accepts."""
    for remark in report.remarks:
        say(f"  {printable(remark)}")
    if unusable:
        first = printable(min(unusable), longest=60)
        say(
            f"  {len(unusable)} keys were left out, the first {first!r}: a signal's name must have 1 to "
            f"{wire.LONGEST_NAME_CHARS} printable characters and no blanks around them"
        )


def _sendable(signals: dict[str, float], unusable: set[str]) -> dict[str, float]:
    """Return the signals with valid names, and remember the others: one invalid name would cost its whole step."""
    wrong = [name for name in signals if len(name) > wire.LONGEST_NAME_CHARS or not wire.is_clean_name(name)]
    if not wrong:
        return signals
    unusable.update(wrong)
    return {name: value for name, value in signals.items() if name not in unusable}


def _receipt(answer: bytes, url: str) -> wire.Receipt:
    try:
        return wire.decode_receipt(answer)
    except ValueError as failure:  # the errors of msgspec are of this kind
        beginning = answer[:BEGINNING_BYTES].decode(errors="replace")
        raise CommandError(
            f"{url}/api/v1/ingest must answer with a receipt, got {beginning!r}; "
            "give the address of a collector as --url"
        ) from failure


def _say_losses(receipt: wire.Receipt, left_out: int) -> int:
    """Print the losses from a receipt, and return the number of left-out signals so far."""
    for rejection in receipt.rejected:
        say(f"  a step was refused: {printable(rejection.detail)}")
    if receipt.left_out is None:
        return left_out
    if not left_out:
        say(f"  signals were left out: {printable(receipt.left_out.detail)}")
    return left_out + receipt.left_out.signals
