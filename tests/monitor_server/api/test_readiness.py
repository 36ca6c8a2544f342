"""The readiness of a collector whose database ends no write: it is said in time, and other requests are answered."""

import threading

import pytest
import sqlalchemy

from monitor_server.api.running_collector import health
from monitor_server.commands.doctor.collector_findings import check_collector
from tests.live import PATIENCE_SECONDS, eventually
from tests.monitor_server.readiness import readiness

LOCKS = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "LOCK TABLE alembic_version IN EXCLUSIVE MODE"}


@pytest.fixture
def blocked(start_collector, database_url):
    """A collector that cannot write its test of the database while the connection holds a lock."""
    live = start_collector()
    engine = sqlalchemy.create_engine(database_url)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(LOCKS[engine.dialect.name]))
        yield live, connection
        connection.rollback()
    engine.dispose()


def test_requests_for_the_readiness_keep_no_other_request_waiting(blocked, monkeypatch):
    """Load balancers ask every few seconds; four of them occupied all threads that read for others."""
    monkeypatch.setattr(health, "LONGEST_WAIT_SECONDS", PATIENCE_SECONDS)
    live, other = blocked
    answers = []
    askers = [threading.Thread(target=lambda: answers.append(readiness(live))) for _ in range(6)]
    for asker in askers:
        asker.start()
    eventually(lambda: len(live.server.server_state.tasks) == len(askers))
    assert live.get("/runs")["items"] == []
    assert answers == []
    other.rollback()
    for asker in askers:
        asker.join(PATIENCE_SECONDS)
    assert [status for status, _ in answers] == [200] * len(askers)


def test_a_write_that_does_not_end_is_said_before_the_asker_gives_up(blocked, monkeypatch):
    """The doctor waited for ten seconds, and then said that nothing answers and a collector should be started."""
    monkeypatch.setattr(health, "LONGEST_WAIT_SECONDS", 0.2)
    live, other = blocked
    status, answer = readiness(live)
    assert (status, answer["detail"]) == (503, "the database has not confirmed a write within 0.2 s")
    (finding,) = [each for each in check_collector(live.url) if each.level == "problem"]
    assert "it is not ready: the database has not confirmed a write" in finding.text
    other.rollback()
    eventually(lambda: readiness(live)[0] == 200)
