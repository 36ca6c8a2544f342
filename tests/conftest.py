"""Fixtures for all tests: a real collector on a free port of this machine, and a PostgreSQL server."""

import contextlib
import gc
import os
import signal
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from monitor_server.api.example_runs.collapse import BATCH_SECONDS
from monitor_server.settings import Settings
from monitor_server.step_processing.projector import Projector
from monitor_server.step_processing.scheduling.busy_share import BusyShare
from tests import compiled_statements, warm
from tests.databases import migrated_postgres, migrated_sqlite, postgres_collector
from tests.live import PATIENCE_SECONDS, LiveCollector, serving, serving_all_tests
from tests.memory import memory_folder
from tests.ports import reserved_port
from tests.postgres import find_postgres, running_postgres

__all__ = ["migrated_postgres", "migrated_sqlite", "postgres_collector"]

# A shell that starts the tests in the background has them ignore Ctrl-C, and every process that they start with them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Compile each module once, where the environment forbids it too: else every process that a test starts compiles this
# repository again, and every collector its migrations.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# One thread a process: the models of the tests are tiny, and the workers already share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A slow answer of a busy machine is not a failure.
settings.register_profile("rlvitals", deadline=None)
settings.load_profile("rlvitals")
compiled_statements.share()
# The tests commit some ten thousand times to databases of their own.
if (folder_in_memory := memory_folder()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder_in_memory))

# Folders whose tests start processes or browsers, which take seconds.
PROCESSES = {"benchmarks", "browser", "callbacks", "contract", "deploy", "e2e", "examples", "faults", "reference"}


def pytest_configure(config: pytest.Config) -> None:
    """Let the workers of pytest-xdist share one interpreter that has imported torch."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        warm.listen()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect no garbage while tests are collected: imported objects stay, and a search through them takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)  # once markers have taken tests out, which would move the borders between workers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slow tests, an equal share on each worker, so that none is left alone at the end.

    `--dist worksteal` gives each worker an equal part of the list, and one that has finished takes from the end of
    another's. Each part therefore begins with slow tests, goes on with those that start processes or browsers, and
    ends with the quickest.
    """
    if addresses := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"the id of a test must be the same in every process, got {addresses[0]}: give its ids")
    # Imported objects stay, and their garbage too: any full collection that walks through torch and Dash, also a first
    # one here, takes half a second to a second.
    gc.freeze()
    # At Python's own thresholds the collection takes a tenth to a fifth of the time of some folders.
    gc.set_threshold(20_000, 50, 50)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = [item for item in items if item.get_closest_marker("slow")]
    others = [item for item in items if not item.get_closest_marker("slow")]
    long = [item for item in others if PROCESSES & set(item.nodeid.split("/"))]
    quick = [item for item in others if not PROCESSES & set(item.nodeid.split("/"))]
    ordered: list[pytest.Item] = []
    rest = iter(quick)
    for worker in range(workers):
        size = (len(items) - len(ordered)) // (workers - worker)  # as worksteal divides the list
        first = [*_with_warm_start(slow[worker::workers], is_first=worker == 0), *_part(long, worker, workers)]
        ordered += [*first, *islice(rest, max(0, size - len(first)))]
    items[:] = ordered


def _with_warm_start(items: list[pytest.Item], *, is_first: bool) -> list[pytest.Item]:
    """Put what needs the warm start first or last: the first worker trains it while the others run other tests."""
    return sorted(items, key=lambda item: ("tiny_cache" in getattr(item, "fixturenames", ())) != is_first)


def _part(items: list[pytest.Item], worker: int, workers: int) -> list[pytest.Item]:
    """Return the neighbours in a list that one worker runs, so that it starts what they share once."""
    return items[len(items) * worker // workers : len(items) * (worker + 1) // workers]


@pytest.fixture(scope="session")
def sqlite_collector(
    migrated_sqlite: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCollector]:
    """A collector for the whole session; tests keep apart by the names of their runs."""
    database = migrated_sqlite(tmp_path_factory.mktemp("collector"))
    with serving_all_tests(database) as live:
        yield live


@pytest.fixture(scope="session")
def collector(sqlite_collector: LiveCollector) -> LiveCollector:
    """The collector of the session; `tests/databases.py` has one on a database of each kind."""
    return sqlite_collector


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server for the whole session; `create_database` makes a database on it."""
    if find_postgres() is None and os.environ.get("CI") != "true":
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    with running_postgres() as server:
        yield server


@pytest.fixture
def database_url(migrated_sqlite: Callable[[Path], str], tmp_path: Path) -> str:
    """A SQLite database without data; folders whose tests run on both databases have a fixture of their own."""
    return migrated_sqlite(tmp_path)


@pytest.fixture(scope="session")
def collector_port() -> int:
    """The port of the first collector that a test starts; 0 for any."""
    return 0


@pytest.fixture
def many_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the collectors that start from here on show any number of views; their limit has its own test."""
    for name in ("VIEWS_PER_CALLER", "VIEWS_ALTOGETHER"):
        monkeypatch.setattr(f"monitor_server.api.running_collector.collector.{name}", 1e6)


@pytest.fixture
def start_collector(database_url: str, collector_port: int) -> Iterator[Any]:
    """Start a collector with own settings, clock or engine: `start_collector(stall_factor=2, clock=clock)`.

    Receipts wait for their verdicts also on a machine that is busy.
    """
    with contextlib.ExitStack() as stack:
        ports = [collector_port]

        def start(
            *, clock: Any = None, engine: Any = None, sample_batch_seconds: float = BATCH_SECONDS, **settings: Any
        ) -> LiveCollector:
            defaults = {
                "database_url": database_url,
                "dashboard": "",
                "tick_seconds": 0.1,
                "verdict_wait_seconds": PATIENCE_SECONDS,
            }
            options = {"clock": clock, "engine": engine, "sample_batch_seconds": sample_batch_seconds}
            port = ports.pop() if ports else 0
            return stack.enter_context(serving(Settings(**(defaults | settings)), port=port, **options))

        yield start


@pytest.fixture
def run_name() -> str:
    """A name that no other test has used."""
    return f"run-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port on which nobody listens, reserved for a process that needs a port number before it starts."""
    with reserved_port() as port:
        yield port


class NeverBusy(BusyShare):
    """The share of a projector for which receipts wait however long it works for other runs."""

    def note(self, seconds: float, *, is_working: bool) -> None:
        """Note nothing."""


@pytest.fixture(scope="session", autouse=True)
def patient_receipts() -> Iterator[None]:
    """Let every receipt wait for the verdict on its batch, so that a test can read the results of its batch.

    Where the machine is slow, projectors work for much of the time, and receipts would not wait behind other runs.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLVITALS_VERDICT_WAIT_SECONDS", str(PATIENCE_SECONDS))
        patch.setitem(Projector.__init__.__kwdefaults__, "busy_share", NeverBusy())
        yield


@pytest.fixture(scope="session", autouse=True)
def session_spool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the files that trainers leave on disk out of the user's cache, also those that outlive a test."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def own_spool(session_spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Separate the files that trainers leave on disk from the next test, which may use the same name.

    `tmp_path_factory.mktemp` would list the folders of all earlier tests at each call.
    """
    folder = session_spool / uuid.uuid4().hex
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
