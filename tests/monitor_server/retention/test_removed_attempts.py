"""A reset hides attempts at once, and removes their rows in slices."""

import json

import pytest

from monitor_server.errors import Unavailable
from monitor_server.ingest.reset import reset_run
from monitor_server.settings import Settings
from monitor_server.store.database import Store
from tests.live import eventually, serving
from tests.monitor_server.retention.runs import count_rows, send_everything

FIRST_STRAY_STEP, STRAY_STEPS = 220, 500
MAX_ROWS_AT_ONCE = 600  # 250 records, and their steps


@pytest.fixture
def settings(database_url):
    return Settings(
        database_url=database_url, dashboard="", tick_seconds=0.1, verdict_wait_seconds=60.0, retention_seconds=0.05
    )


@pytest.fixture
def filled(settings, scripted, clock):
    """A run of two attempts; the second repeats some steps of the first, goes on, and has a step that waits."""
    with serving(settings, clock=clock, engine=scripted) as live:
        run_id = send_everything(live, "r")
        common = {"run": "r", "attempt": 2}
        steps = range(FIRST_STRAY_STEP, FIRST_STRAY_STEP + STRAY_STEPS)
        live.send(records=[{"step": step, "scalars": {"reward/mean": -1.0}} for step in steps], **common)
        eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == FIRST_STRAY_STEP + STRAY_STEPS - 1)
        # From now on two ranks are expected at each incomplete step.
        live.send(records=[{"step": 90_000, "scalars": {"reward/mean": -1.0}}], world_size=2, **common)
    return run_id


def _read(live, run_id):
    (series,) = live.get(f"/runs/{run_id}/series", signals="reward/mean", max_points=2_000)["items"]
    steps = live.get(f"/runs/{run_id}/steps", from_step=FIRST_STRAY_STEP, limit=100)["items"]
    attempts = live.get(f"/runs/{run_id}/attempts")["items"]
    return min(series["values"]), {step["attempt"] for step in steps}, [one["number"] for one in attempts]


def test_a_reset_hides_an_attempt_at_once_and_its_rows_are_removed_in_slices(
    filled, settings, scripted, clock, database_url
):
    """The transaction of the reset removes few rows; a collector that starts after a crash removes the others."""
    before = count_rows(database_url, filled)
    store = Store.open(database_url)
    with store.write() as repositories:
        reset_run(repositories, filled, attempt=1, now=clock.now)
    after = count_rows(database_url, filled)
    assert before["chunk_values"]
    assert sum(before.values()) - sum(after.values()) <= MAX_ROWS_AT_ONCE
    assert after["attempts"] == 2
    with store.read() as repositories:
        assert {step.attempt for step in repositories.steps.page(filled, from_step=0, limit=2_000)} == {1}
        assert set(repositories.attempts.ordinals(filled)) == {1}
        assert {attempt for attempt, _ in repositories.waiting.first(filled, limit=10)} <= {1}
        (column,) = repositories.series.read(filled, ["reward/mean"])
        assert column.values.min() >= 0
        assert repositories.compaction.next_chunk(filled, newest_step=260) is None
    store.close()
    with serving(settings, clock=clock, engine=scripted) as live:
        assert _read(live, filled) == (0.0, {1}, [1])
        body = json.dumps({"schema_version": 2, "run": "r", "attempt": 2, "records": []}).encode()
        eventually(lambda: count_rows(database_url, filled)["attempts"] == 1)
        left = count_rows(database_url, filled)
        assert left["records"] == before["records"] - STRAY_STEPS - 1
        assert left["steps"] == before["steps"] - STRAY_STEPS
        assert _read(live, filled) == (0.0, {1}, [1])
        assert live.post(body).status == 200
        assert _read(live, filled)[2] == [1, 2]


def test_a_number_whose_rows_are_being_removed_is_refused_until_they_are_gone(filled, settings, scripted, clock):
    """Records of a rank of the removed attempt are answered with 503, and stored when they are sent again later."""
    with serving(settings.model_copy(update={"retention_seconds": 3_600.0}), clock=clock, engine=scripted) as live:
        live.app.state.collector.retention.stop()
        answer = live.pool.request("POST", f"{live.url}/api/v1/runs/{filled}/reset", json={"attempt": 1})
        assert (answer.status, answer.json()["attempt"]) == (200, 1)
        record = {"step": 0, "scalars": {"reward/mean": 5.0}}
        body = json.dumps({"schema_version": 2, "run": "r", "attempt": 2, "records": [record]}).encode()
        refused = live.post(body)
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert refused.json()["error"] == "DeletionUnderWay"
        assert live.send(run="r", attempt=3, records=[record])["accepted"] == 1  # another number is not affected
        assert live.get(f"/runs/{filled}")["attempt"] == 2
    with serving(settings, clock=clock, engine=scripted) as live:
        eventually(lambda: live.post(body).status == 200)
        assert [one["number"] for one in live.get(f"/runs/{filled}/attempts")["items"]] == [1, 2, 3]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_rows_of_an_attempt_are_not_removed_while_somebody_works_on_its_run(filled, settings, clock):
    """Another worker may have removed them, and a trainer that uses the number again would lose its records."""
    store = Store.open(settings.database_url)
    with store.write() as repositories:
        reset_run(repositories, filled, attempt=1, now=clock.now)

    def remove():
        with store.write() as removing:
            removing.limit_lock_waits(0.05)
            removing.deletion.remove_attempt_rows(filled, limit=250)

    with store.write() as resetting:
        resetting.runs.lock(filled)
        with pytest.raises(Unavailable, match="lock timeout"):
            remove()
    store.close()
