"""The time in which the collector returns a series of many points: ``python -m benchmarks.series``.

Writes a run of 60 signals through the store, then reads some of them as the API does. The lower bound beside it is the
time in which SQLite counts the same rows.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from monitor_server.api.pagination import ItemList
from monitor_server.api.schemas import SeriesItem
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.runs import Run
from monitor_server.store.repositories.series.downsampling import downsample
from monitor_server.store.repositories.steps import Step

__all__ = ["main"]

NAMES = [f"signal/{place}" for place in range(60)]
MAX_POINTS = 1500
CHUNK = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.series", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(f"sqlite:///{Path(folder) / 'series.db'}")
        _fill(store, given.steps)
        with store.read() as repositories:
            _print_table(repositories, given.steps, given.repeats)
        store.close()
    return 0


def _fill(store: Store, steps: int) -> None:
    random = np.random.default_rng(0)
    positions = {name: place for place, name in enumerate(NAMES)}
    run = Run(
        id="r",
        project="p",
        name="r",
        source="",
        capability="L1",
        world_size=1,
        attempt=1,
        started_at=0.0,
        last_seen=0.0,
        last_step_at=0.0,
        stall_seconds=300.0,
    )
    with store.write() as repositories:
        repositories.runs.add(run)
        repositories.steps.add_signals("r", NAMES, start=0)
    for start in range(0, steps, CHUNK):
        rows = random.normal(size=(CHUNK, len(NAMES))).tolist()
        chunk = [
            Step(step=start + place, attempt=1, time=0.0, signals=dict(zip(NAMES, row, strict=True)))
            for place, row in enumerate(rows)
        ]
        with store.write() as repositories:
            repositories.steps.put("r", chunk, replace=False, positions=positions)
            due = repositories.compaction.next_chunk("r", newest_step=start + CHUNK - 1)
            if due is not None:
                repositories.compaction.add("r", due)


def _print_table(repositories: Repositories, steps: int, repeats: int) -> None:
    count = "SELECT count(length(packed)) FROM steps"
    floor = _median(lambda: repositories.steps._connection.exec_driver_sql(count).scalar(), repeats)  # noqa: SLF001 - the floor
    print(f"{steps} steps of {len(NAMES)} signals, thinned to {MAX_POINTS} points; CPU time, medians of {repeats}")
    print(f"{'signals':>8} {'read ms':>9} {'thin ms':>9} {'JSON ms':>9} {'all ms':>9} {'all/floor':>10}")
    for names in (NAMES[:1], NAMES[:6]):
        read, thinning, encoding = _times(repositories, names, repeats)
        whole = read + thinning + encoding
        print(f"{len(names):>8} {read:>9.1f} {thinning:>9.2f} {encoding:>9.2f} {whole:>9.1f} {whole / floor:>10.1f}")
    print(f"   floor {floor:>9.1f} ms: SQLite walking over the rows")


def _times(repositories: Repositories, names: list[str], repeats: int) -> tuple[float, float, float]:
    """Return the milliseconds for reading, thinning and encoding some signals."""
    columns = repositories.series.read("r", names, max_points=MAX_POINTS)
    thin = [downsample(column, max_points=MAX_POINTS) for column in columns]

    def encode() -> str:
        items = [SeriesItem(signal=c.signal, steps=c.steps.tolist(), values=c.values.tolist()) for c in thin]
        return ItemList(items=items).model_dump_json()

    return (
        _median(lambda: repositories.series.read("r", names, max_points=MAX_POINTS), repeats),
        _median(lambda: [downsample(column, max_points=MAX_POINTS) for column in columns], repeats),
        _median(encode, repeats),
    )


def _median(work: Callable[[], object], repeats: int) -> float:
    """Return the median CPU time in milliseconds."""
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        taken.append(1000 * (time.process_time() - begin))
    return statistics.median(taken)


if __name__ == "__main__":
    raise SystemExit(main())
