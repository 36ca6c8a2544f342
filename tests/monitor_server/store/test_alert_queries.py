"""The queries of the store for the alerts of a run that has had thousands."""

import itertools

import pytest
from sqlalchemy import insert

from monitor_server.store.database import Store
from monitor_server.store.repositories import alerts as alert_repository
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


def _store_alerts(store, project, rows):
    """Store alerts of one run in a project of the same name."""
    alert = {
        "run_id": project, "kind": "k", "severity": "warning", "state": "resolved", "phase": "decay", "opened_step": 1,
        "severity_step": 1, "last_step": 1, "opened_at": 1.0, "summary": "", "evidence": b"{}",
    }  # fmt: skip
    run = Run(
        id=project, project=project, name="r", source="x", capability="L0", world_size=1, attempt=0, started_at=1.0,
        last_seen=1.0, last_step_at=1.0, stall_seconds=1e6,
    )  # fmt: skip
    with store.write() as repositories:
        repositories.runs.add(run)
        for row in rows:
            current_connection().execute(insert(alerts), alert | {"id": str(row["number"])} | row)


@sqlite_only
@pytest.mark.parametrize(
    "wanted",
    [
        {"state": "firing"},
        {"stage": "acknowledged"},
        {"state": "pending"},
        {"stage": "pending", "project": "quiet"},
        {"state": "pending", "run_id": "r"},
        {"project": "quiet"},
    ],
)
def test_a_list_of_few_alerts_does_not_read_all_of_them(store, wanted):
    """A script asks for them again and again, and a year has resolved a hundred thousand."""
    with noted_statements() as asked, store.read() as reading:
        reading.alerts.page(limit=10, before=5, **wanted)
    for statement, parameters in asked:
        for step in query_plan(store, statement, parameters) if "FROM alerts" in statement else ():
            assert not step.startswith("SCAN alerts") or step.endswith(("uq_alerts_firing", "ix_alerts_pending"))
            assert "ix_alerts_number" not in step
            assert "project" in wanted or step != "SCAN runs"


@pytest.mark.parametrize("few", [5, 1_000])
def test_alerts_are_listed_page_by_page_however_they_are_found(store, monkeypatch, few):
    """The newest are first, whether many are read in that order or a few are sorted."""
    monkeypatch.setattr(alert_repository, "FEW", few)
    states = {number: ("firing", "pending", "resolved", "resolved")[number % 4] for number in range(1, 25)}
    for project, numbers in {"p": range(1, 17), "q": range(17, 25)}.items():
        rows = [{"number": number, "state": states[number], "kind": f"k{number}"} for number in numbers]
        _store_alerts(store, project, [row | {"stage": row["state"]} for row in rows])
    for wanted in ({}, {"state": "firing"}, {"stage": "firing"}, {"state": "pending"}, {"state": "resolved"}):
        for of in ({}, {"project": "p"}, {"project": "q"}, {"run_id": "q", "project": "q"}):
            found, before = [], None
            with store.read() as reading:
                while page := reading.alerts.page(limit=3, before=before, **wanted, **of):
                    found += [row["number"] for row in page]
                    before = found[-1]
            first, last = {None: (1, 24), "p": (1, 16), "q": (17, 24)}[of.get("project")]
            asked = {*wanted.values()} or {*states.values()}
            assert found == [number for number in range(last, first - 1, -1) if states[number] in asked]


@sqlite_only
def test_each_tick_reads_no_silenced_alert_that_is_resolved(store):
    """Resolved alerts keep their silence, and are many after a year: SQLite would execute instructions for each."""
    _store_alerts(store, "p", [{"number": number, "silence_id": "s"} for number in range(500)])
    instructions = itertools.count()
    with store.read() as reading:
        driver = current_connection().connection.driver_connection
        driver.set_progress_handler(lambda: next(instructions) < 0, 1)
        reading.silences.has_due(now=2.0)
        driver.set_progress_handler(None, 1)
    assert 0 < next(instructions) < 500
