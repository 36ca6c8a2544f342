"""The queries of the store for the alerts of a run that has had thousands."""

import itertools

import pytest
from sqlalchemy import insert

from monitor_server.store.database import Store
from monitor_server.store.repositories.runs import Run
from monitor_server.store.tables import alerts
from tests.databases import sqlite_only
from tests.store_connections import current_connection, noted_statements, query_plan


@pytest.fixture
def store(database_url):
    """A store without data."""
    opened = Store.open(database_url)
    yield opened
    opened.close()


@sqlite_only
@pytest.mark.parametrize(
    ("ask", "found_by"),
    [
        (lambda alerts: alerts.open("r"), ["(run_id=? AND state=?)"]),
        (lambda alerts: alerts.firing("r"), ["(run_id=? AND state=?)"]),
        (
            lambda alerts: alerts.passed("r", attempt=1, since=0.0, limit=20),
            ["(run_id=? AND state=?)", "(run_id=? AND alert_id=?)"],
        ),
    ],
)
def test_what_is_asked_for_every_batch_reads_few_alerts_of_many(store, ask, found_by):
    """SQLite finds them by an index over all that is known of them, and not by the run alone."""
    with noted_statements() as asked, store.read() as reading:
        ask(reading.alerts)
    ((statement, parameters),) = [each for each in asked if "FROM alerts" in each[0]]
    plan = query_plan(store, statement, parameters)
    assert [step for step in plan if "SEARCH alert" in step or "SCAN alert" in step] == [
        step for step in plan if any(step.endswith(index) for index in found_by)
    ]
    assert all(any(step.endswith(index) for step in plan) for index in found_by)


@sqlite_only
def test_each_tick_reads_no_silenced_alert_that_is_resolved(store):
    """Resolved alerts keep their silence, and are many after a year: SQLite would execute instructions for each."""
    alert = {
        "run_id": "r", "kind": "k", "severity": "warning", "state": "resolved", "phase": "decay", "opened_step": 1,
        "severity_step": 1, "last_step": 1, "opened_at": 1.0, "summary": "", "evidence": b"{}", "silence_id": "s",
    }  # fmt: skip
    run = Run(
        id="r", project="p", name="r", source="x", capability="L0", world_size=1, attempt=0, started_at=1.0,
        last_seen=1.0, last_step_at=1.0, stall_seconds=1e6,
    )  # fmt: skip
    with store.write() as repositories:
        repositories.runs.add(run)
        rows = [alert | {"number": number, "id": str(number)} for number in range(500)]
        current_connection().execute(insert(alerts), rows)
    instructions = itertools.count()
    with store.read() as reading:
        driver = current_connection().connection.driver_connection
        driver.set_progress_handler(lambda: next(instructions) < 0, 1)
        reading.silences.has_due(now=2.0)
        driver.set_progress_handler(None, 1)
    assert 0 < next(instructions) < 500
