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
