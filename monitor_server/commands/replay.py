"""`rlvitals replay LOG…`: finished runs sent to a collector as if they happened now, to be looked at step by step.

The collector judges them as it judges a live run, so what it says, and at which step, is what it would have said.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from monitor_server.commands.client import DEFAULT_URL, CommandError, ask, fetch
from monitor_server.detection.protocol import Observation
from monitor_server.importers.corpus import read_run, run_name, run_paths
from monitor_server.importers.keys import all_numbers
from trainer_hooks import wire

__all__ = ["add_arguments", "batches", "run"]

RECORDS_PER_BATCH = 500
BEATS_PER_SECOND = 4
# A batch of that many steps is judged before it is answered.
ANSWER_SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rlvitals replay`."""
    parser.add_argument("logs", nargs="+", type=Path, help="logs of JSON lines (.jsonl, .jsonl.gz), or folders of runs")
    parser.add_argument("--url", default=DEFAULT_URL, help="address of the collector")
    parser.add_argument("--project", default="replay", help="project under which the runs appear")
    parser.add_argument("--pace", type=float, help="steps a second, to watch a run live; as fast as it goes without")


def run(arguments: argparse.Namespace) -> int:
    """Send every run, tell what the collector said of it, and give the exit code."""
    if arguments.pace is not None and not arguments.pace > 0:
        raise CommandError(f"--pace must be above 0 steps a second, got {arguments.pace:g}")
    try:
        logs = [log for given in arguments.logs for log in run_paths(given)]
        for log in logs:
            _replay(log, arguments.url.rstrip("/"), arguments.project, arguments.pace)
    except OSError as error:
        raise CommandError(str(error)) from error
    return 0


def _replay(log: Path, url: str, project: str, pace: float | None) -> None:
    name = run_name(log)
    steps = read_run(log, all_numbers)
    print(f"{name}: {len(steps)} steps, {url}/runs/{wire.run_id(project, name)}", flush=True)  # noqa: T201 - a command prints
    size = RECORDS_PER_BATCH if pace is None else max(1, round(pace / BEATS_PER_SECOND))
    known = 0
    for batch in batches(steps, name, project, size):
        begun = time.monotonic()
        body, headers = wire.encode(batch), {"Content-Type": wire.MSGPACK}
        answer = fetch("POST", url, "/ingest", body=body, headers=headers, timeout=ANSWER_SECONDS)
        receipt = wire.decode_receipt(answer)
        known += receipt.duplicates
        for rejection in receipt.rejected:
            print(f"  a step was refused: {rejection.detail}", flush=True)  # noqa: T201 - likewise
        if pace is not None:
            time.sleep(max(0.0, len(batch.records) / pace - (time.monotonic() - begun)))
    if known:
        print(f"  {known} steps were there already; another --project replays them anew", flush=True)  # noqa: T201 - likewise
    _tell(url, wire.run_id(project, name))


def batches(steps: Sequence[Observation], name: str, project: str, size: int) -> Iterator[wire.Batch]:
    """Give a run as the batches that a trainer would have sent, ``size`` records at most in each; the last ends it."""
    for attempt, group in groupby(steps, key=lambda step: step.attempt):
        records = [msgspec.Raw(wire.encode(wire.Record(step=step.step, scalars=dict(step.signals)))) for step in group]
        for start in range(0, len(records), size):
            is_last = attempt == steps[-1].attempt and start + size >= len(records)
            yield wire.Batch(
                schema_version=1,
                run=name,
                project=project,
                attempt=attempt,
                capability="L0",
                source="replay",
                end="finished" if is_last else None,
                records=records[start : start + size],
            )


def _tell(url: str, run_id: str) -> None:
    alerts = ask("GET", url, f"/runs/{run_id}/alerts")["items"]
    for alert in sorted(alerts, key=lambda alert: alert["severity_step"]):
        print(f"  step {alert['severity_step']:>5}  {alert['severity']:<8}  {alert['summary']}", flush=True)  # noqa: T201 - likewise
    if not alerts:
        print("  no alert", flush=True)  # noqa: T201 - likewise
