"""Export and deletion of large runs: their time, the collector's memory, and the waiting time of another trainer."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import urllib3

from benchmarks.healthy_signals import healthy_levels
from benchmarks.ingest import SIGNALS as SENT_SIGNALS
from benchmarks.ingest import STEPS_PER_BATCH, process
from benchmarks.service.charts import fill
from benchmarks.service.core import Core
from benchmarks.service.databases import NewDatabase
from benchmarks.service.processor_time import listener
from benchmarks.service.throughput import PORT, collector_command
from monitor_server.store.database import Store
from trainer_hooks import wire

__all__ = ["large_table"]

MEBIBYTE = 1024 * 1024
SIGNALS = 6
STEPS_OF_EACH = 10
PAUSE_SECONDS = 0.05
DELETION_SECONDS = 900.0


def large_table(kinds: dict[str, NewDatabase], *, steps: int, runs: int) -> str:
    """Return the table of an export and a deletion of one long run, and of a project of many runs."""
    rows = [
        f"### Export and deletion of a run of {steps:,} steps of {SIGNALS} signals, and of a project of {runs:,} runs",
        "",
        "| database | what | time | collector's memory: before, most | another trainer's batch: median, longest |",
        "|---|---|---|---|---|",
    ]
    for kind, create in kinds.items():
        long_url, many_url = create(), create()
        fill(long_url, steps, SIGNALS)
        _fill_project(many_url, runs)
        with process(collector_command(long_url), PORT) as url:
            run = f"{url}/api/v1/runs/r"
            rows.append(_row(kind, "export the run as JSON lines", url, partial(_read, f"{run}/export", steps)))
            rows.append(_row(kind, "delete the run", url, partial(_delete, run, long_url)))
        with process(collector_command(many_url), PORT) as url:
            project, whole = f"{url}/api/v1/projects/default", f"{url}/api/v1/export?project=default"
            rows.append(_row(kind, "export the project", url, partial(_read, whole, runs * STEPS_OF_EACH)))
            rows.append(_row(kind, "delete the project", url, partial(_delete, project, many_url)))
    note = "A deletion works for a fifth of the time at most, so that others go first."
    return "\n".join([*rows, "", note])


def _fill_project(url: str, runs: int) -> None:
    """Store some steps of many runs."""
    core, names = Core(url), [f"r{place}" for place in range(runs)]
    for first in range(0, runs, 8):
        core.append([core.batch(run, 0, steps=STEPS_OF_EACH) for run in names[first : first + 8]])
    core.project(names)
    core.close()


def _row(kind: str, what: str, url: str, act: Callable[[], None]) -> str:
    status = Path(f"/proc/{listener(int(url.rsplit(':', 1)[1]))}/statm")
    with _watched(url, status) as (waits, sizes):
        before, begin = sizes[0], time.perf_counter()
        act()
        taken = time.perf_counter() - begin
    memory = f"{before / MEBIBYTE:.0f} MiB, {max(sizes) / MEBIBYTE:.0f} MiB"
    return f"| {kind} | {what} | {taken:.1f} s | {memory} | {1e3 * median(waits):.0f} ms, {1e3 * max(waits):.0f} ms |"


@contextlib.contextmanager
def _watched(url: str, status: Path) -> Iterator[tuple[list[float], list[int]]]:
    """Send batches of another project until the block ends; yield how long each waited, and the memory meanwhile."""
    waits: list[float] = []
    sizes: list[int] = []
    stop, scalars = threading.Event(), healthy_levels(SENT_SIGNALS)

    def send() -> None:
        with urllib3.PoolManager(retries=False) as pool:
            step = int(time.time())
            while not stop.is_set():
                records = [
                    msgspec.Raw(wire.encode(wire.Record(step=step + place, scalars=scalars)))
                    for place in range(STEPS_PER_BATCH)
                ]
                batch = wire.Batch(schema_version=wire.SCHEMA_VERSION, project="other", run="o", records=records)
                begin = time.perf_counter()
                answer = pool.request(
                    "POST", f"{url}/api/v1/ingest", body=wire.encode(batch), headers={"Content-Type": wire.MSGPACK}
                )
                waits.append(time.perf_counter() - begin)
                sizes.append(int(status.read_text().split()[1]) * 4096)
                if answer.status != 200:  # noqa: PLR2004 - success
                    raise RuntimeError(answer.data.decode())
                step += STEPS_PER_BATCH
                stop.wait(PAUSE_SECONDS)

    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(send)
        while not sizes and not sent.done():
            time.sleep(PAUSE_SECONDS)
        try:
            if not sent.done():
                yield waits, sizes
        finally:
            stop.set()
        sent.result()


def _read(url: str, least_lines: int) -> None:
    """Download a file, and check that it has a line for each step."""
    lines = 0
    with urllib3.PoolManager(retries=False, timeout=None) as pool:
        answer: Any = pool.request("GET", url, preload_content=False)
        for part in answer.stream(MEBIBYTE):
            lines += part.count(b"\n")
        if answer.status != 200 or lines < least_lines:  # noqa: PLR2004 - success
            raise RuntimeError(
                f"{url} must give at least {least_lines:,} lines, got {lines:,} (status {answer.status})"
            )


def _delete(address: str, database: str) -> None:
    """Delete a run or a project, and wait until none of its rows is stored."""
    answer = urllib3.request("DELETE", f"{address}?force=true", retries=False)
    if answer.status >= 300:  # noqa: PLR2004 - success
        raise RuntimeError(answer.data.decode())
    store, end = Store.open(database), time.monotonic() + DELETION_SECONDS
    try:
        while True:
            with store.read() as reading:
                left = reading.deletion.deleted_runs()
            if not left:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"{len(left)} runs are not deleted after {DELETION_SECONDS:.0f} s")
            time.sleep(0.1)
    finally:
        store.close()
