"""A run of random batches, crashes and a backup in the middle: its export, and the restored run, find the same."""

import itertools
import random
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.api.export import json_lines, run_pages
from monitor_server.api.export.json_lines import export_jsonl
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe
from monitor_server.ingest.recorded_batches import batches
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.settings import Settings
from monitor_server.step_processing.ownership import OWNER_SECONDS
from monitor_server.store.database import Store
from monitor_server.store.operations.backup import back_up
from tests.monitor_server.simulated_collectors import (
    SimulatedCollector,
    SimulatedTrainer,
    project_some,
    project_to_end,
    random_examples,
)
from tests.postgres import create_database, find_postgres
from trainer_hooks import wire

SETTINGS = Settings(step_deadline_seconds=1e9, stall_minimum_seconds=1e9)


class OrderedRun:
    """A run whose ranks all report, each in the order of its steps; batches are sent again, and collectors crash."""

    def __init__(self, draw, clock):
        self.draw, self.clock = draw, clock
        self.trainer = SimulatedTrainer(draw, ascends=True)
        self.name = uuid.uuid4().hex
        self.run_id = wire.run_id("default", self.name)
        self.stored = {}  # the number of records that are stored, by attempt and rank

    def send_some(self, collectors):
        """Send parts of what each rank has recorded, some of it again."""
        draw = self.draw
        for _ in range(draw.randint(1, 4)):
            self.trainer.log_steps()
        for key, records in draw.sample(sorted(self.trainer.records.items()), len(self.trainer.records)):
            begin = max(0, self.stored.get(key, 0) - draw.choice((0, 0, 2, 5)))
            end = min(len(records), begin + draw.choice((1, 4, 10)))
            crash = draw.choice((None, None, None, "before the commit", "after the commit"))
            self.deliver(draw.choice(collectors), (*key, records[begin:end]), crash=crash)
            if self.draw.random() < 2 / 3:
                project_some(self.draw, collectors, self.run_id, self.clock, interruptions=[])

    def send_all(self, collectors):
        """Send what is left of every rank, so that the next attempt finds no step that waits."""
        for key, records in self.trainer.records.items():
            self.deliver(self.draw.choice(collectors), (*key, records))
        project_to_end(collectors, self.run_id, self.clock)

    def deliver(self, collector, part, *, crash=None):
        """Append a batch, and note up to where its rank is stored."""
        attempt, rank, records = part
        if records and collector.append([self.batch(part)], crash=crash) is not None:
            end = self.trainer.records[attempt, rank].index(records[-1]) + 1
            self.stored[attempt, rank] = max(end, self.stored.get((attempt, rank), 0))

    def batch(self, part):
        """Return a batch as ingest reads it."""
        return self.trainer.batch(*part, run=self.name, settings=SETTINGS, now=self.clock.now)


def _findings(store, run_id):
    kept = ("kind", "severity", "state", "opened_step", "severity_step", "last_step", "resolved_step")
    with store.read() as repositories:
        alerts = repositories.alerts.page(limit=1_000, run_id=run_id)
        return repositories.phases.all(run_id), [tuple(alert[name] for name in kept) for alert in alerts]


def _steps(store, run_id):
    with store.read() as repositories:
        return {
            attempt: [
                (step.step, step.time, step.signals)
                for step in repositories.steps.of_attempt(run_id, attempt, from_step=0, limit=1_000)
            ]
            for attempt in repositories.attempts.ordinals(run_id)
        }


def _replay(export, collector, clock):
    """Send an export to a collector as `rlvitals replay` does, and return the new run's id."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.jsonl"
        file.write_bytes(export)
        (log,) = find_logs([file])
        mapping = NameMapping({}, log.aliases, keep_unknown=True)
        steps = list(observe(log.read(ReadReport()), mapping.signals, ReadReport()))
    for batch in batches(steps, name=log.name, project="again", size=7):
        valid = read_batch(wire.encode(batch), media_type=wire.MSGPACK, encoding="", settings=SETTINGS, now=clock.now)
        assert collector.append([valid]) is not None
        while collector.project(valid.run_id):
            pass
    return valid.run_id


@pytest.fixture
def small_pages(monkeypatch):
    """Let an export read few steps and alerts at a time."""
    monkeypatch.setattr(run_pages, "STEPS_PER_PAGE", 3)
    monkeypatch.setattr(json_lines, "ALERTS_PER_PAGE", 2)


@pytest.fixture
def create_collector(store, scripted, clock):
    """Create a collector, on another database if one is given."""
    return lambda on=store: SimulatedCollector(on, scripted, clock, SETTINGS)


@pytest.fixture
def restore(request, database_url, tmp_path):
    """Back a database up and restore it into another one, which is opened."""
    opened = []

    def copy():
        backup = tmp_path / uuid.uuid4().hex
        back_up(database_url, backup)
        url = f"sqlite:///{backup}.db"
        if database_url.startswith("sqlite"):
            shutil.copy(backup, f"{backup}.db")
        else:
            url = create_database(request.getfixturevalue("postgres"))
            address = url.replace("+psycopg", "")
            subprocess.run([find_postgres() / "pg_restore", "--no-owner", f"--dbname={address}", backup], check=True)
        opened.append(Store.open(url))
        return opened[-1]

    yield copy
    for each in opened:
        each.close()


@random_examples(2)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.usefixtures("small_parts")
def test_an_export_and_a_restored_backup_find_what_the_run_has_found(store, create_collector, clock, restore, seed):
    """Phases and alerts are equal after a replay, and after all batches are sent again to the restored backup."""
    draw = random.Random(seed)  # noqa: S311 - synthetic telemetry
    run, restored = OrderedRun(draw, clock), None
    collectors = [create_collector() for _ in range(2)]
    launches = draw.randint(1, 3)
    for launch in range(launches):
        run.trainer.launch()
        for _ in range(draw.randint(1, 4)):
            run.send_some(collectors)
            if restored is None and run.stored and draw.random() < (launch + 1) / launches / 2:
                restored = restore()
        run.send_all(collectors)
    found, steps = _findings(store, run.run_id), _steps(store, run.run_id)
    if any(steps.values()):
        replayed = _replay(b"".join(export_jsonl(store, [run.run_id])), create_collector(), clock)
        assert _findings(store, replayed) == found
    else:  # each step waits for a rank that has recorded nothing
        assert found == ([], [])
    if restored is not None:
        clock.now += OWNER_SECONDS
        again = create_collector(restored)
        for attempt in run.trainer.world_sizes:
            for key in [key for key in run.trainer.records if key[0] == attempt]:
                run.deliver(again, (*key, run.trainer.records[key]))
            project_to_end([again], run.run_id, clock)
        assert (_findings(restored, run.run_id), _steps(restored, run.run_id)) == (found, steps)


@random_examples(1)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.usefixtures("small_parts", "small_pages")
def test_a_run_that_trains_is_exported_as_it_was_when_its_file_began(store, create_collector, clock, seed):
    """Steps, rewinds and alerts that come while a slow reader reads its file change nothing in it."""
    draw = random.Random(seed)  # noqa: S311 - synthetic telemetry
    run, collectors = OrderedRun(draw, clock), [create_collector() for _ in range(2)]
    files = []  # what the file has to be, what was read of it, and the rest
    for _ in range(draw.randint(2, 3)):
        run.trainer.launch()
        for _ in range(draw.randint(1, 4)):
            run.send_some(collectors)
            if run.stored and draw.random() < 1 / 2:
                whole, others = b"".join(export_jsonl(store, [run.run_id])), export_jsonl(store, [run.run_id])
                files.append((whole, [next(others)], others))
            for _, read, others in files:
                read.extend(itertools.islice(others, draw.choice((0, 0, 1, 3))))
        run.send_all(collectors)
    for whole, read, others in files:
        assert b"".join([*read, *others]) == whole
