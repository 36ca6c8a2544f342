"""The recorded collapse that an empty dashboard plays, here faster than to be watched."""

import asyncio

import pytest

from monitor_server.app import create_app
from monitor_server.commands.main import main
from monitor_server.settings import Settings
from tests.databases import execute, sqlite_only
from tests.live import eventually, serving

BATCH_SECONDS = 0.01
LAST_STEP = 283


def _play(live):
    answer = live.pool.request("POST", f"{live.url}/api/v1/sample", json={})
    assert answer.status == 202
    return answer.json()["run_id"]


def _status(live, run_id):
    answer = live.pool.request("GET", f"{live.url}/api/v1/runs/{run_id}")
    return answer.json()["status"] if answer.status == 200 else None


def _findings(live, run_id):
    alerts = live.get(f"/runs/{run_id}/alerts", limit=1000)["items"]
    return sorted((a["kind"], a["severity"], a["opened_step"], a["severity_step"]) for a in alerts)


def test_the_sample_opens_the_alerts_that_its_replay_opens(start_collector, tmp_path):
    """It is played once for any number of requests, and `rlvitals replay` of its export finds the same."""
    live = start_collector(sample_batch_seconds=BATCH_SECONDS)
    run_id = _play(live)
    assert _play(live) == run_id
    eventually(lambda: _status(live, run_id) == "finished")
    run = eventually(lambda: (found := live.get(f"/runs/{run_id}"))["last_step"] == LAST_STEP and found)
    assert run["phase"] == "collapsed"
    assert (run["project"], run["name"], run["attempt"]) == ("samples", "recorded collapse", 1)
    assert _play(live) == run_id
    assert _status(live, run_id) == "finished"
    found = _findings(live, run_id)
    assert "critical" in {severity for _, severity, *_ in found}
    file = tmp_path / "sample.jsonl"
    assert main(["export", run_id, "-o", str(file), "--url", live.url]) == 0
    assert main(["replay", str(file), "--url", live.url]) == 0
    (again,) = live.get("/runs", project="replay")["items"]
    eventually(lambda: _findings(live, again["id"]) == found)


@sqlite_only
def test_a_sample_that_a_stop_has_cut_off_is_played_again(database_url):
    """The next collector plays it to its end, as a trainer that was restarted."""
    settings = Settings(database_url=database_url, dashboard="", tick_seconds=0.1)
    with serving(settings) as live:
        run_id = _play(live)
        eventually(lambda: _status(live, run_id))
    with serving(settings, sample_batch_seconds=BATCH_SECONDS) as live:
        assert _status(live, run_id) != "finished"
        assert _play(live) == run_id
        eventually(lambda: _status(live, run_id) == "finished")
        eventually(lambda: live.get(f"/runs/{run_id}")["phase"] == "collapsed")


@sqlite_only
def test_two_requests_at_once_start_one_player(database_url):
    """Two people may open the same empty dashboard; both players would send the run."""

    async def count_players():
        app = create_app(Settings(database_url=database_url, dashboard=""))
        async with app.router.lifespan_context(app):
            others = asyncio.all_tasks()
            await asyncio.gather(app.state.sample.start(), app.state.sample.start())
            return len(asyncio.all_tasks() - others)

    assert asyncio.run(count_players()) == 1


DAMAGED = "CREATE TRIGGER damaged BEFORE INSERT ON records BEGIN SELECT RAISE(ABORT, 'damaged'); END"


@sqlite_only
def test_a_sample_that_fails_does_not_keep_the_collector_from_stopping(database_url, caplog):
    """The log names the reason, and all parts of the collector are stopped in order."""
    with serving(Settings(database_url=database_url, dashboard="", tick_seconds=0.1)) as live:
        execute(database_url, {"sqlite": DAMAGED})
        _play(live)
        eventually(lambda: "the recorded collapse was not played to its end" in caplog.text)
        parts = live.app.state.collector
        assert parts.writer.is_alive
    assert not parts.writer.is_alive
    assert not parts.projector.is_alive


@pytest.mark.parametrize("collector", ["sqlite_collector"], indirect=True)
def test_the_ablation_is_stored_once(collector):
    """Six ended runs with λ as their setting; asked for again, nothing is added. All of them die."""
    first, again = (
        collector.pool.request("POST", f"{collector.url}/api/v1/sample/ablation", json={}).json()["last_steps"]
        for _ in range(2)
    )
    assert first == again
    runs = [collector.get(f"/runs/{run_id}") for run_id in first]
    assert [run["config"]["lambda"] for run in runs] == [0.0, 0.0, 0.01, 0.01, 0.1, 0.1]
    assert {(run["status"], run["attempt"], run["project"]) for run in runs} == {("finished", 1, "samples")}
    for run_id, step in first.items():
        eventually(lambda run_id=run_id, step=step: collector.get(f"/runs/{run_id}")["last_step"] == step)
        eventually(lambda run_id=run_id: collector.get(f"/runs/{run_id}/alerts", limit=1000)["items"])
