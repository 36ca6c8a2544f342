"""The queries of the store for the alerts of a run that has had thousands."""

import pytest

from monitor_server.store.database import Store
from tests.databases import sqlite_only
from tests.store_connections import noted_statements, query_plan


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
    """Resolved alerts keep their silence, and are many after a year."""
    with noted_statements() as asked, store.read() as reading:
        reading.silences.has_due(now=1.0)
    ((statement, parameters),) = [each for each in asked if "silence_id" in each[0]]
    (found,) = [step for step in query_plan(store, statement, parameters) if "alerts" in step]
    assert "USING INDEX ix_alerts_silenced" in found
