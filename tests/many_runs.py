"""Fills the store of a collector with runs that nothing was recorded of, faster than a trainer could send them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from sqlalchemy import create_engine, insert

from monitor_server.settings import Settings
from monitor_server.store.repositories.listed_columns import reward_columns, text_columns
from monitor_server.store.tables import runs
from tests.live import LiveCollector, serving

__all__ = ["add_runs", "serving_many_runs"]


def add_runs(database_url: str, count: int, *, now: float, project: str = "many") -> None:
    """Add finished runs ``run-00000``, ``run-00001``, ..., whose rewards are their numbers and which end in turn."""
    rows = []
    for number in range(count):
        name, rewards = f"run-{number:05}-seed{number % 4}", [float(number)]
        times = dict.fromkeys(("started_at", "last_seen", "last_step_at"), now - count + number)
        fixed = {
            "source": "",
            "capability": "L1",
            "world_size": 1,
            "attempt": 0,
            "last_attempt": 0,
            "stall_seconds": 60.0,
        }
        texts = text_columns(project=project, name=name, title=None, tags=())
        recent = msgspec.msgpack.encode({"rewards": rewards})
        ended = {
            "ended": "finished",
            "announced": "finished",
            "phase": "healthy",
            "last_step": number,
            "recent": recent,
        }
        identity = {"id": f"{number:032x}", "project": project, "name": name}
        rows.append(identity | times | fixed | ended | texts | reward_columns(rewards))
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(insert(runs), rows)
    engine.dispose()


@contextmanager
def serving_many_runs(folder: Path, count: int) -> Iterator[LiveCollector]:
    """Serve a collector with its dashboard and some finished runs, with its database in a folder."""
    address = f"sqlite:///{folder}/fleet.db"
    with serving(Settings(database_url=address, dashboard="dashboard.app:attach")) as live:
        add_runs(address, count, now=time.time())
        yield live
