"""The growth of the cost of a step with runs, steps and ranks, and of a collector's memory over a long run."""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.service.core import Core
from benchmarks.service.databases import NewDatabase, stored_bytes

__all__ = ["growth_table", "memory_table"]

SIGNALS = 60
MEBIBYTE = 1024 * 1024
# The first row shows the fixed cost of an empty database.
LENGTHS = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 1.0)
SHAPES = ((1, 1), (10, 1), (100, 1), (1_000, 1), (1, 16), (1, 256))


def growth_table(kinds: dict[str, NewDatabase], *, steps: int) -> str:
    """Return the table of the processor time of a step, or of a rank's record, for shapes from small to large."""
    rows = [
        f"### How cost grows: about {steps:,} records of {SIGNALS} signals each",
        "",
        "| database | runs | ranks | records | ingest, CPU a record | projector, CPU a record | bytes a value |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, create in kinds.items():
        for runs, ranks in SHAPES:
            rows.append(_row(kind, create(), runs=runs, ranks=ranks, records=steps))
    note = (
        "Batches of ten records; with several ranks each sends its own. The detectors of a run start to work after "
        "some steps, so that many short runs cost less a step than a long one."
    )
    return "\n".join([*rows, "", note])


def _row(kind: str, url: str, *, runs: int, ranks: int, records: int) -> str:
    core, names = Core(url), [f"r{place}" for place in range(runs)]
    rounds = max(1, records // (10 * runs * ranks))
    ingest = projector = 0.0
    for number in range(rounds):
        batches = [core.batch(run, 10 * number, rank=rank, world_size=ranks) for run in names for rank in range(ranks)]
        begin = time.process_time()
        for first in range(0, len(batches), 8):
            core.append(batches[first : first + 8])
            if ranks > 1:  # as it would be: the projector is awake after each commit
                ingest += time.process_time() - begin
                begin = time.process_time()
                core.project(names)
                projector += time.process_time() - begin
                begin = time.process_time()
        ingest += time.process_time() - begin
        begin = time.process_time()
        core.project(names)
        projector += time.process_time() - begin
    count = 10 * rounds * runs * ranks
    core.close()
    size = stored_bytes(url) / count / SIGNALS
    each = f"{1e6 * ingest / count:,.0f} µs | {1e6 * projector / count:,.0f} µs"
    return f"| {kind} | {runs:,} | {ranks} | {count:,} | {each} | {size:.1f} |"


def memory_table(kinds: dict[str, NewDatabase], *, steps: int, signals: int = 3) -> str:
    """Return the table of a collector's resident memory, of the time of a step and of the bytes, by length of a run."""
    rows = [
        f"### Growth with the length of one run: {signals} signals, ingest and projector in one process",
        "",
        "| database | steps so far | collector's memory | CPU a step since the row above | bytes a value |",
        "|---|---|---|---|---|",
    ]
    for kind, create in kinds.items():
        # The measurements before leave this process with free memory, in which a growth would not be seen.
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as another:
            rows += another.submit(_long_run, kind, create(), steps=steps, signals=signals).result()
    return "\n".join([*rows, "", "Goal: the memory of a million steps is that of the first part."])


def _long_run(kind: str, url: str, *, steps: int, signals: int) -> list[str]:
    """Return the rows of one database."""
    core, first, rows = Core(url), 0, []
    for share in LENGTHS:
        begin, last = time.process_time(), int(share * steps)
        for place in range(first, last, 100):
            core.append([core.batch("r", place, steps=100, signals=signals)])
            core.project(["r"])
        each, memory = 1e6 * (time.process_time() - begin) / (last - first), _resident_bytes() / MEBIBYTE
        size = stored_bytes(url) / last / signals
        rows.append(f"| {kind} | {last:,} | {memory:.0f} MiB | {each:,.0f} µs | {size:.1f} |")
        first = last
    core.close()
    return rows


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
