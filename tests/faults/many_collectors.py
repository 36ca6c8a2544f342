"""Simulated ranks send to several collectors on one PostgreSQL database, and the collectors are killed in turn.

``python -m tests.faults.many_collectors --ranks 200 --steps 600`` is the long form of the test. At the end
everything that was acknowledged is in the database once, and steps, phases and alerts are equal to those of a single
collector that nobody disturbed.
"""

import argparse
import contextlib
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import sqlalchemy
import urllib3

from monitor_server.store.database import Store
from tests.faults.collector import start
from tests.live import PATIENCE_SECONDS, eventually
from tests.ports import reserved_port
from tests.postgres import create_database, running_postgres
from tests.store_connections import current_connection
from trainer_hooks import wire

__all__ = ["RUN", "Ranks", "compare", "main", "make_record", "read_outcome"]

RUN = "many"
RUN_ID = wire.run_id("default", RUN)
RETRY_SECONDS = 0.05
# Collectors that are killed leave records behind which the last of them projects; a busy machine takes so long for one.
SECONDS_PER_RECORD = 0.05


@dataclass
class Outcome:
    """The outcome of a run: the answers that readers get, and the number of stored records of each rank."""

    steps: list[tuple[int, int, dict[str, float]]]
    phases: Sequence[tuple[str, int, int | None]]
    alerts: list[tuple[Any, ...]]
    records: dict[int, int] = field(default_factory=dict)


def make_record(step: int, rank: int) -> wire.Record:
    """Return a record of a run that collapses: entropy and reward fall, gradients explode."""
    entropy = 1.2 * math.exp(-step / 12) + 0.01 * math.sin(step)
    loss = 0.5 + 0.01 * rank + (step / 10 if step > 20 else 0.0)
    return wire.Record(
        step=step,
        time=1_000_000.0 + 5.0 * step,
        scalars={"reward/mean": 0.6 - 0.01 * step, "grad/norm": 0.5 + 0.02 * math.cos(step) + 2.0 ** (step - 45)},
        summaries={
            "entropy/mean": wire.Moments(count=1 + rank, sum=entropy * (1 + rank)),
            "loss/policy": wire.Moments(count=1, sum=loss),
        },
    )


@dataclass
class Ranks:
    """The simulated ranks of a run: each sends all its steps, each to any collector until one has acknowledged it.

    Attributes:
        addresses: The collectors.
        ranks: How many ranks there are.
        steps: How many steps each sends.
        before: Called with each step before a rank sends it.
        acknowledged: How many steps of each rank were acknowledged.
    """

    addresses: Sequence[str]
    ranks: int
    steps: int
    before: Callable[[int], None] = lambda _: None
    acknowledged: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        """Send everything."""
        threads = [threading.Thread(target=self._send, args=(rank,)) for rank in range(self.ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send(self, rank: int) -> None:
        first = rank % len(self.addresses)
        turns = itertools.cycle([*self.addresses[first:], *self.addresses[:first]])
        with urllib3.PoolManager(retries=False, timeout=10) as pool:
            for step in range(self.steps):
                self.before(step)
                record = msgspec.Raw(wire.encode(make_record(step, rank)))
                batch = wire.Batch(
                    schema_version=wire.SCHEMA_VERSION, run=RUN, rank=rank, world_size=self.ranks, records=[record]
                )
                while not _is_acknowledged(pool, next(turns), wire.encode(batch)):
                    time.sleep(RETRY_SECONDS)
                self.acknowledged[rank] = self.acknowledged.get(rank, 0) + 1


def _is_acknowledged(pool: urllib3.PoolManager, address: str, body: bytes) -> bool:
    try:
        answer = pool.request("POST", f"{address}/api/v1/ingest", body=body, headers={"Content-Type": wire.MSGPACK})
    except urllib3.exceptions.HTTPError:
        return False
    return bool(answer.status == 200)


@contextlib.contextmanager
def killed_in_turn(database: str, ports: Sequence[int], *, seconds: float) -> Iterator[list[int]]:
    """Run collectors on some ports; kill one after the other with SIGKILL, and start it again at once."""
    kills, stop = [0], threading.Event()
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(start(database, port)) for port in ports]

        def kill() -> None:
            for place in itertools.cycle(range(len(ports))):
                if stop.wait(seconds):
                    return
                running[place].kill()
                running[place].wait()
                running[place] = stack.enter_context(start(database, ports[place]))
                kills[0] += 1

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            yield kills
        finally:
            stop.set()
            killer.join()


def read_outcome(database: str, *, steps: int, ranks: int = 1) -> Outcome:
    """Wait until a run is projected to its end, and return its outcome."""
    store = Store.open(database)

    def is_done() -> bool:
        with store.read() as repositories:
            run = repositories.runs.find(RUN_ID)
            return run is not None and run.last_step == steps - 1 and run.position == run.log_end

    try:
        eventually(is_done, seconds=PATIENCE_SECONDS + SECONDS_PER_RECORD * steps * ranks)
        with store.read() as repositories:
            found = repositories.steps.page(RUN_ID, from_step=0, limit=steps + 1)
            fields = (
                "kind",
                "severity",
                "severity_step",
                "state",
                "phase",
                "opened_step",
                "last_step",
                "resolved_step",
            )
            alerts = [
                tuple(alert[name] for name in fields) for alert in repositories.alerts.page(limit=10_000, run_id=RUN_ID)
            ]
            counts = current_connection().execute(
                sqlalchemy.text("SELECT rank, sum(record_count) FROM records WHERE run_id = :run GROUP BY rank"),
                {"run": RUN_ID},
            )
            return Outcome(
                steps=[(step.attempt, step.step, dict(step.signals)) for step in found],
                phases=repositories.phases.all(RUN_ID),
                alerts=sorted(alert for alert in alerts if alert[0] not in {"telemetry_stale", "trainer_lost"}),
                records={rank: count for rank, count in counts},  # noqa: C416 - rows are not pairs to mypy
            )
    finally:
        store.close()


def compare(disturbed: str, quiet: str, *, ranks: int, steps: int, seconds: float, kills: int) -> int:
    """Send the same steps to collectors that are killed and to one that is not; return how many kills there were.

    Args:
        disturbed: The database of three collectors.
        quiet: The database of the collector that is left alone.
        ranks: How many ranks send.
        steps: How many steps each sends.
        seconds: The time between two kills.
        kills: The ranks wait now and then, so that there are at least so many.

    Raises:
        AssertionError: If the outcomes differ.
    """
    with contextlib.ExitStack() as stack:
        *several, single = [stack.enter_context(reserved_port()) for _ in range(4)]
        with killed_in_turn(disturbed, several, seconds=seconds) as count:

            def wait_for_kills(step: int) -> None:
                wanted = min(kills, step * (kills + 1) // steps)
                eventually(lambda: count[0] >= wanted, seconds=PATIENCE_SECONDS + 2 * seconds)

            sent = Ranks([_address(port) for port in several], ranks, steps, wait_for_kills)
            sent.run()
            after = read_outcome(disturbed, steps=steps, ranks=ranks)
        with start(quiet, single):
            Ranks([_address(single)], ranks, steps).run()
            wanted = read_outcome(quiet, steps=steps, ranks=ranks)
    assert sent.acknowledged == dict.fromkeys(range(ranks), steps)
    assert after.records == sent.acknowledged
    assert [step for _, step, _ in after.steps] == list(range(steps))
    assert after == wanted
    assert after.alerts, "the run has to raise alerts, or nothing is compared"
    return count[0]


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the long form on its own PostgreSQL server, and print the compared outcomes."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.many_collectors", description=__doc__)
    parser.add_argument("--ranks", type=int, default=200)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=20.0, help="between two kills")
    parser.add_argument("--kills", type=int, default=30, help="at least")
    given = parser.parse_args(arguments)
    begin = time.monotonic()
    with running_postgres() as server:
        kills = compare(
            create_database(server),
            create_database(server),
            ranks=given.ranks,
            steps=given.steps,
            seconds=given.seconds,
            kills=given.kills,
        )
    print(  # noqa: T201 - the command's answer
        f"{given.ranks} ranks, {given.steps} steps, {kills} kills in {time.monotonic() - begin:.0f} s: everything that "
        "was acknowledged is there once, and steps, phases and alerts are those of one collector left alone"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
