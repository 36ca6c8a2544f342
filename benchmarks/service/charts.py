"""Reading long signals through the API: processor time of the collector for a request, by length and signals."""

import time

import numpy as np
import urllib3
from sqlalchemy import insert

from benchmarks.healthy_signals import healthy_levels
from benchmarks.ingest import process
from benchmarks.service.databases import NewDatabase, stored_bytes
from benchmarks.service.processor_time import cpu_seconds, listener
from benchmarks.service.throughput import PORT, collector_command
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.runs import Run
from monitor_server.store.tables import steps as steps_table

__all__ = ["chart_table", "fill"]

MAX_POINTS = 1_500
REQUESTS = 40
ROWS = 1_000
RUN = "r"


def chart_table(kinds: dict[str, NewDatabase], *, sizes: tuple[tuple[int, int], ...]) -> str:
    """Return the table of a chart's cost for runs of some numbers of steps and signals."""
    rows = [
        f"### Charts: signals thinned to {MAX_POINTS:,} points, through the API",
        "",
        "| database | steps | signals of the run | bytes a step and signal | read | CPU of the collector | time |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, create in kinds.items():
        for steps, signals in sizes:
            url = create()
            fill(url, steps, signals)
            size = stored_bytes(url) / steps / signals
            with process(collector_command(url), PORT) as server:
                for read in (1, min(6, signals)):
                    cpu, taken = _cost(server, list(healthy_levels(signals))[:read])
                    what = "1 signal" if read == 1 else f"{read} signals"
                    rows.append(
                        f"| {kind} | {steps:,} | {signals} | {size:.1f} | {what} | {cpu:.1f} ms | {taken:.1f} ms |"
                    )
    note = "Goal: one signal of 100,000 steps 10 ms, six of them 40 ms, one of 1,000,000 steps 30 ms of CPU."
    return "\n".join([*rows, "", note])


def fill(url: str, steps: int, signals: int) -> None:
    """Write a run's steps and compact them, as the projector does."""
    store, random = Store.open(url), np.random.default_rng(0)
    run = Run(
        id=RUN,
        project="p",
        name=RUN,
        source="",
        capability="L1",
        world_size=1,
        attempt=1,
        started_at=0.0,
        last_seen=time.time(),
        last_step_at=time.time(),
        stall_seconds=3e9,
        ended="finished",
        announced="finished",
    )
    with store.write() as repositories:
        repositories.runs.add(run)
        repositories.attempts.enter(RUN, 1, world_size=1, now=0.0, position=1)
        repositories.steps.add_signals(RUN, list(healthy_levels(signals)), start=0)
    for start in range(0, steps, ROWS):
        values = random.normal(size=(ROWS, signals))
        with store.write() as repositories:
            _add(repositories, start, values)
            if not start % (10 * ROWS) or start + ROWS >= steps:
                while (chunk := repositories.compaction.next_chunk(RUN, newest_step=start + ROWS - 1)) is not None:
                    repositories.compaction.add(RUN, chunk)
    store.close()


def _add(repositories: Repositories, start: int, values: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> None:
    common = {"run_id": RUN, "attempt": 1, "policy_version": None, "data_version": None}
    rows = [
        common | {"step": start + place, "time": 1e9 + start + place, "packed": row.tobytes()}
        for place, row in enumerate(values)
    ]
    repositories.steps._connection.execute(insert(steps_table), rows)  # noqa: SLF001 - packing is not measured


def _cost(server: str, signals: list[str]) -> tuple[float, float]:
    """Return the milliseconds of the collector's processor time, and of the wall, for a request."""
    pid = listener(int(server.rsplit(":", 1)[1]))
    with urllib3.PoolManager(retries=False) as pool:
        ask = [*(("signals", signal) for signal in signals), ("max_points", str(MAX_POINTS))]
        pool.request("GET", f"{server}/api/v1/runs/{RUN}/series", fields=ask)
        cpu, wall = cpu_seconds(pid), time.perf_counter()
        for _ in range(REQUESTS):
            answer = pool.request("GET", f"{server}/api/v1/runs/{RUN}/series", fields=ask)
            if answer.status != 200 or len(answer.json()["items"]) != len(signals):  # noqa: PLR2004 - success
                raise RuntimeError(answer.data.decode()[:200])
    taken = time.perf_counter() - wall
    return 1000 * (cpu_seconds(pid) - cpu) / REQUESTS, 1000 * taken / REQUESTS
