"""Limits that people save: in force at the next look, counted before, recorded, and separate from the environment."""

import itertools

import pytest

from monitor_server.access.callers import Caller, Scope
from monitor_server.alerts.collector_alerts import RUN_ID, update_collector_alerts
from monitor_server.api.routes.retention import LimitValues
from monitor_server.detection.protocol import Finding, Severity
from monitor_server.errors import SettingsConflict
from monitor_server.retention import policy as policies
from monitor_server.retention.limits import SAVABLE, limits_in_force, save_limits
from monitor_server.retention.policy import RetentionPolicy
from monitor_server.retention.preview import preview_removals
from monitor_server.retention.worker import RetentionWorker
from monitor_server.settings import Settings
from monitor_server.store.repositories.retention import step_thinning
from monitor_server.store.repositories.retention.limits import SavedLimit
from tests.databases import sqlite_only
from tests.live import eventually
from tests.monitor_server.access.conftest import Guarded
from tests.monitor_server.retention.runs import count_rows, send_everything

DAY = 86_400.0
AUTHOR = Caller(name="root", scope=Scope.ADMIN)
PATH = "/api/v1/retention"


@pytest.fixture
def guarded(start_collector, scripted, clock):
    """A collector that looks for removable rows all the time, and whose environment sets one limit."""
    return Guarded(
        start_collector(
            engine=scripted, clock=clock, retention_seconds=0.02, step_deadline_seconds=1e9, response_days=500.0
        )
    )


@pytest.fixture
def admin(guarded):
    return guarded.key("admin", name="root")


def put(guarded, key, limits, seen, **body):
    return guarded.ask("PUT", PATH, key, body={"limits": limits, "seen": seen} | body)


def values(guarded, key):
    return {item["name"]: item for item in guarded.ask("GET", PATH, key).json()["items"]}


def test_a_saved_limit_removes_what_was_previewed_without_a_restart(guarded, admin, clock):
    """The preview has the numbers, the save removes the rows, and the audit log has an entry; status has the limits."""
    run_id = guarded.send(admin, run="old", steps=5)
    clock.now += 10 * DAY
    young = guarded.send(admin, run="young", steps=4)
    asked = {"run_days": 7.0, "record_days": 20.0, "step_days": None}
    preview = guarded.ask("POST", f"{PATH}/preview", admin, body={"limits": asked}).json()["items"]
    names = ("name", "removes", "runs", "rows", "is_complete")
    assert [tuple(item[name] for name in names) for item in preview] == [
        ("record_days", "records", 0, 0, True), ("run_days", "runs", 1, 5, True),
    ]  # fmt: skip
    assert guarded.ask("GET", f"/api/v1/runs/{run_id}", admin).status == 200
    answer = put(guarded, admin, {"run_days": 7.0}, {"run_days": None}, by="ann")
    assert answer.status == 200, answer.data
    shown = values(guarded, admin)["run_days"]
    assert (shown["value"], shown["source"], shown["saved_by"]) == (7.0, "saved", "ann (root)")
    eventually(lambda: guarded.ask("GET", f"/api/v1/runs/{run_id}", admin).status == 404)
    assert guarded.ask("GET", f"/api/v1/runs/{young}", admin).status == 200
    entries = guarded.ask("GET", "/api/v1/audit", admin).json()["items"]
    (change,) = [entry for entry in entries if entry["action"] == "retention.change"]
    assert (change["by"], change["detail"]) == ("ann (root)", "run_days: for good -> 7")
    assert guarded.ask("GET", "/api/v1/status", admin).json()["retention"]["run_days"] == 7.0
    assert put(guarded, admin, {"run_days": None}, {"run_days": 7.0}).status == 200
    assert put(guarded, admin, {"record_steps": 1234567}, {"record_steps": None}).status == 200
    change = guarded.ask("GET", "/api/v1/audit", admin).json()["items"][0]
    assert change["detail"] == "record_steps: for good -> 1234567"
    assert values(guarded, admin)["run_days"]["source"] == "default"


@sqlite_only
def test_what_cannot_be_saved_is_said_in_words_and_changes_nothing(guarded, admin):
    """Refused: values of the environment, the audit log, a change of an unseen value, and values out of range."""
    shown = values(guarded, admin)
    assert "RLVITALS_RESPONSE_DAYS" in shown["response_days"]["fixed"]
    assert "a stolen key" in shown["audit_days"]["fixed"]
    assert [name for name in shown if shown[name]["fixed"]] == ["response_days", "response_steps", "audit_days"]
    answer = put(guarded, admin, {"response_days": 1.0}, {"response_days": 500.0})
    assert (answer.status, "RLVITALS_RESPONSE_DAYS sets response_days" in answer.json()["detail"]) == (409, True)
    assert guarded.ask("POST", f"{PATH}/preview", admin, body={"limits": {"response_days": 1.0}}).status == 409
    answer = put(guarded, admin, {"run_days": 1.0}, {"run_days": 2.0})
    assert (answer.status, "run_days is now for good, and was 2" in answer.json()["detail"]) == (409, True)
    for limits in (
        {"audit_days": 1.0},
        {"run_days": -1},
        {"thinned_steps": 1},
        {"record_steps": 0.5},
        {"run_days": True},
        {"x": 1},
    ):
        assert put(guarded, admin, limits, limits).status == 422
    assert put(guarded, admin, {"run_days": 1.0}, {}).status == 409
    assert put(guarded, guarded.key("operate"), {"run_days": 1.0}, {"run_days": None}).status == 403
    assert put(guarded, guarded.key("admin", project="p"), {"run_days": 1.0}, {"run_days": None}).status == 403
    assert values(guarded, admin) == shown


def test_the_counts_are_near_to_what_is_removed(guarded, clock, database_url):
    """A run with everything has counts of runs and rows for each limit."""
    run_id = send_everything(guarded.live, "all")
    clock.now += 10 * DAY
    store = guarded.live.app.state.collector.store
    with store.read() as repositories:
        asked = {"record_steps": 1, "record_days": 1.0, "step_days": 1.0, "thinned_steps": 2, "run_days": 1.0}
        settings = Settings()
        found = {each.name: each for each in preview_removals(repositories, settings, asked, now=clock.now)}
    assert all(each.is_complete for each in found.values())
    assert {name: each.runs for name, each in found.items()} == {
        "record_steps": 1, "record_days": 1, "step_days": 1, "run_days": 1,
    }  # fmt: skip
    assert 0 < found["record_steps"].rows < found["record_days"].rows
    assert found["step_days"].rows == found["run_days"].rows - 2
    assert found["run_days"].rows == count_rows(database_url, run_id)["steps"]


def test_counting_ends_in_time_with_what_is_known_by_then(guarded, clock):
    """A clock that goes on by a second at each look, and seven runs: the parts of one and two runs are counted."""
    run_ids = [guarded.send(None, run=f"r{number}", steps=3) for number in range(7)]
    store, asked = guarded.live.app.state.collector.store, {"run_days": 1.0, "record_days": 1.0}

    def are_projected():
        with store.read() as repositories:
            return all(repositories.runs.find(run_id).last_step == 2 for run_id in run_ids)

    eventually(are_projected)  # a receipt of a busy machine does not wait for it
    clock.now += 10 * DAY
    seen = itertools.count()
    with store.read() as repositories:
        for name, expected in (("record_days", (3, 9)), ("run_days", (7, 9))):
            looks = 6 if name == "record_days" else 7  # the runs are counted by themselves
            (found,) = preview_removals(
                repositories, Settings(), {name: 1.0}, now=clock.now, seconds=looks, monotonic=lambda: next(seen)
            )
            assert (found.runs, found.rows, found.is_complete) == (*expected, False)
        nothing = preview_removals(repositories, Settings(), asked, now=clock.now, seconds=0.0)
        assert [(each.name, each.runs, each.rows, each.is_complete) for each in nothing] == [
            ("run_days", 0, 0, False), ("record_days", 0, 0, False),
        ]  # fmt: skip
        every = preview_removals(repositories, Settings(), asked, now=clock.now)
    assert [(each.runs, each.rows, each.is_complete) for each in every] == [(7, 21, True)] * 2


@sqlite_only
def test_a_run_whose_trainer_sends_is_not_deleted_by_its_age(guarded, clock):
    """The shortest limit ends no training, against the wish of its owner."""
    run_id = send_everything(guarded.live, "alive")
    store, settings = guarded.live.app.state.collector.store, Settings(run_days=1e-9)
    policy = RetentionPolicy(settings, clock=clock)
    clock.now += 1
    with store.write() as repositories:
        policy.begin_deletions(repositories)
        assert repositories.deletion.deleted_runs() == []
        found = preview_removals(repositories, Settings(), {"run_days": 1e-9}, now=clock.now)
        assert [each.runs for each in found] == [0]
    clock.now += 10 * DAY
    with store.write() as repositories:
        policy.begin_deletions(repositories)
        assert repositories.deletion.deleted_runs() == [run_id]


@sqlite_only
def test_a_run_with_which_a_rule_compares_stays_whole_until_the_rule_is_switched_off(guarded, admin, clock):
    """Without it the rule would never fire again, and nobody would know. A person who deletes it is told the rule."""
    store, settings = guarded.live.app.state.collector.store, Settings(run_days=7.0, step_days=7.0, thinned_steps=2)
    base = guarded.send(admin, run="base", steps=20)
    rule = {"name": "behind", "condition": "comparison", "signal": "reward/mean", "operator": "<", "value": -0.3}
    rule |= {"project": "ours", "other_run_id": base}
    made = guarded.ask("POST", "/api/v1/rules", admin, body={"rule": rule}).json()
    eventually(lambda: guarded.live.is_projected(base))
    clock.now += 10 * DAY
    policy = RetentionPolicy(settings, clock=clock)

    def due():
        with store.write() as repositories:
            policy.begin_deletions(repositories)
            thinned = [task.run_id for task in policy.find_tasks(repositories) if task.kind == "steps"]
            asked = {"run_days": 7.0, "step_days": 7.0, "thinned_steps": 2}
            counted = [each.runs for each in preview_removals(repositories, Settings(), asked, now=clock.now)]
            return thinned, counted, repositories.deletion.deleted_runs()

    assert due() == ([], [0, 0], [])
    refused = guarded.ask("DELETE", f"/api/v1/runs/{base}", admin)
    assert (refused.status, refused.json()["error"]) == (409, "RuleConflict")
    assert "'behind'" in refused.json()["detail"]
    changed = guarded.ask("PUT", f"/api/v1/rules/{made['id']}", admin, body={"rule": rule | {"enabled": False}})
    assert changed.status == 200, changed.data
    with store.write() as repositories:
        assert [task.run_id for task in policy.find_tasks(repositories) if task.kind == "steps"] == [base]
    assert due() == ([], [0, 0], [base])


@sqlite_only
def test_old_runs_are_deleted_some_in_each_transaction(store, append, clock, monkeypatch):
    """The first search after years without a limit finds thousands, and every other write waited for all of them."""
    monkeypatch.setattr(policies, "RUNS_PER_SLICE", 2)
    run_ids = [append(run=f"run {number}", end="finished") for number in range(5)]
    clock.now += 10 * DAY
    policy = RetentionPolicy(Settings(run_days=7.0), clock=clock)
    with store.write() as repositories:
        assert policy.begin_deletions(repositories)
        assert len(repositories.deletion.deleted_runs()) == 2
    worker = RetentionWorker(store, policy, interval_seconds=3600.0)
    worker.start()

    def entries():
        with store.read() as repositories:
            left = [run_id for run_id in run_ids if repositories.runs.exists(run_id)]
            return left, repositories.audit_log.page(limit=10)

    try:
        eventually(lambda: entries()[0] == [])
    finally:
        worker.stop()
    found = [(entry["action"], entry["target"], entry["detail"]) for entry in entries()[1]]
    assert sorted(found) == sorted(("run.delete", run_id, "no batch for 7 days") for run_id in run_ids)


@sqlite_only
def test_alerts_about_the_collector_are_deleted_once_they_are_old_and_none_fires(store, clock):
    """A channel has failed for a month; the run of the alert is as old as its last change."""
    policy = RetentionPolicy(Settings(run_days=7.0), clock=clock)
    words = {"summary": "s", "evidence": {}, "score": 3.0, "threshold": 3.0}
    failing = Finding(kind="channel_failing:a", severity=Severity.WARNING, step=0, **words)

    def update(*findings):
        with store.write() as repositories:
            update_collector_alerts(repositories, findings, now=clock.now, concerns=lambda _: True)

    def deleted():
        with store.write() as repositories:
            policy.begin_deletions(repositories)
            return repositories.deletion.deleted_runs()

    update(failing)
    clock.now += 30 * DAY
    assert deleted() == []
    update()
    clock.now += 6 * DAY
    assert deleted() == []
    clock.now += 2 * DAY
    assert deleted() == [RUN_ID]


@sqlite_only
def test_nothing_is_removed_for_its_age_while_the_clock_may_be_wrong(guarded, clock):
    """A machine that starts with a date of next month keeps its runs; what counts steps is removed as always."""
    run_id = send_everything(guarded.live, "young")
    store, wrong = guarded.live.app.state.collector.store, [True]
    days = {"run_days": 7.0, "record_days": 7.0, "response_days": 7.0, "step_days": 7.0, "audit_days": 7.0}
    policy = RetentionPolicy(Settings(record_steps=10, **days), clock=clock, may_be_ahead=lambda: wrong[0])
    clock.now += 30 * DAY
    with store.write() as repositories:
        assert not policy.deletes_runs(repositories)
        policy.begin_deletions(repositories)
        assert repositories.deletion.deleted_runs() == []
        (task,) = policy.find_tasks(repositories)
        assert (task.kind, task.kept_steps) == ("records", 10)
    wrong[0] = False
    with store.write() as repositories:
        assert policy.deletes_runs(repositories)
        policy.begin_deletions(repositories)
        assert repositories.deletion.deleted_runs() == [run_id]
        assert "audit_entries" in {task.kind for task in policy.find_tasks(repositories)}


def test_a_limit_that_is_saved_while_data_is_removed_needs_no_wait(start_collector, clock, database_url, monkeypatch):
    """The removal under way ends, and the next search does not wait for the usual interval."""
    for name in ("STEPS_PER_SLICE", "KEPT_BEFORE"):
        monkeypatch.setattr(step_thinning, name, 1)
    guarded = Guarded(start_collector(clock=clock, retention_seconds=3600.0))
    admin = guarded.key("admin", name="root")
    run_id = guarded.send(admin, steps=200)
    clock.now += 2 * DAY
    seen = {"step_days": None, "thinned_steps": 1_000}
    assert put(guarded, admin, {"step_days": 1.0, "thinned_steps": 2}, seen).status == 200

    def is_being_thinned():
        guarded.live.app.state.collector.retention.notify()  # a run that is locked in its turn waits for a search
        return count_rows(database_url, run_id)["steps"] < 200

    eventually(is_being_thinned)
    seen = {"step_days": 1.0, "run_days": None}
    assert put(guarded, admin, {"step_days": None, "run_days": 1.0}, seen).status == 200
    eventually(lambda: not any(count_rows(database_url, run_id).values()))


@sqlite_only
def test_a_task_of_limits_that_are_no_longer_in_force_removes_nothing(guarded, clock):
    """Somebody keeps data for longer while it is being removed: the remaining data stay."""
    run_id = send_everything(guarded.live, "kept")
    clock.now += 10 * DAY
    store, settings = guarded.live.app.state.collector.store, Settings()
    policy = RetentionPolicy(settings, clock=clock)
    with store.write() as repositories:
        save_limits(repositories, settings, {"step_days": 1.0, "thinned_steps": 2},
                    seen={"step_days": None, "thinned_steps": 1_000}, author=AUTHOR, by="", now=clock.now)  # fmt: skip
        tasks = [task for task in policy.find_tasks(repositories) if task.run_id == run_id and task.kind == "steps"]
        assert limits_in_force(repositories, settings).thinned_steps == 2
        save_limits(repositories, settings, {"step_days": None}, seen={"step_days": 1.0}, author=AUTHOR, by="",
                    now=clock.now)  # fmt: skip
        assert [policy.remove_slice(repositories, task).rows for task in tasks] == [0]


def test_the_environment_comes_before_what_was_saved(store):
    """A variable that is set later has priority, and the saved value counts again without it."""
    with store.write() as repositories:
        save_limits(repositories, Settings(), {"run_days": 3.0}, seen={"run_days": None}, author=AUTHOR, by="", now=1.0)
        assert limits_in_force(repositories, Settings()).run_days == 3.0
        fixed = Settings(run_days=30.0)
        assert limits_in_force(repositories, fixed).run_days == 30.0
        with pytest.raises(SettingsConflict, match="RLVITALS_RUN_DAYS"):
            save_limits(repositories, fixed, {"run_days": 1.0}, seen={"run_days": 30.0}, author=AUTHOR, by="", now=1.0)


@sqlite_only
def test_a_saved_limit_of_0_days_is_not_in_force(store, start_collector, caplog):
    """It would remove all data of runs that have ended; the log names it at the start, and another can be saved."""
    with store.write() as repositories:
        repositories.retention_limits.save(SavedLimit(name="run_days", value=0.0, saved_at=1.0, saved_by="ann"))
    guarded = Guarded(start_collector())
    (line,) = [line for line in caplog.messages if "the saved limit run_days of 0 days is not in force" in line]
    assert "save more than 0 days in Settings, or null by PUT /api/v1/retention" in line
    admin = guarded.key("admin", name="root")
    shown = values(guarded, admin)["run_days"]
    assert (shown["value"], shown["source"]) == (None, "default")
    assert put(guarded, admin, {"run_days": 7.0}, {"run_days": None}).status == 200
    assert values(guarded, admin)["run_days"]["value"] == 7.0


def test_a_form_takes_what_the_environment_takes():
    """The same names and the same least values; 0 days are refused with what to do instead."""
    assert set(LimitValues.model_fields) == set(SAVABLE)
    for name in SAVABLE:
        least, refused = (1e-9, 0) if name.endswith("_days") else (2, 1) if name == "thinned_steps" else (1, 0)
        says = f"(?s){name}.*" + ("left empty .* to keep the data for good" if name.endswith("_days") else "")
        for build in (Settings, LimitValues):
            assert getattr(build(**{name: least}), name) == least
            with pytest.raises(ValueError, match=says):
                build(**{name: refused})
