"""Data beyond the settings is removed some rows at a time, and the run works as before."""

import pytest
import sqlalchemy

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import ANYBODY
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.retention.policy import ROWS_PER_SLICE, RetentionPolicy
from monitor_server.settings import Settings
from monitor_server.store import tables
from monitor_server.store.database import Store
from monitor_server.store.repositories import audit_log
from monitor_server.store.repositories.log.blocks import SPAN, block_steps
from monitor_server.store.repositories.retention import step_thinning
from monitor_server.store.tables import records
from tests.databases import sqlite_only
from tests.live import eventually
from tests.monitor_server.retention.runs import count_rows, sampled, send_everything
from tests.store_connections import noted_statements
from trainer_hooks import wire

DAY = 86_400.0


@pytest.fixture
def keeping(start_collector, scripted, clock):
    """Start a collector with settings of retention."""

    def start(**settings):
        defaults = {"engine": scripted, "clock": clock, "retention_seconds": 0.02, "step_deadline_seconds": 1e9}
        return start_collector(**(defaults | settings))

    return start


def _bodies(database_url, run_id):
    """Return which steps have a raw record with a body, by rank."""
    engine = sqlalchemy.create_engine(database_url)
    columns = (records.c.rank, records.c.entries, records.c.seq, records.c.step)
    query = sqlalchemy.select(*columns).where(records.c.run_id == run_id, records.c.body != b"")
    with engine.connect() as connection:
        found = {
            (each, rank)
            for rank, entries, seq, step in connection.execute(query)
            for each in block_steps(entries, seq=seq, step=step)
        }
    engine.dispose()
    return found


def _step(step, **scalars):
    return {"step": step, "scalars": {"a": float(step)} | scalars}


def _share(total):
    return {"loss": {"type": "moments", "sum": total, "count": 1}}


def _runs_to_thin(live, **limits):
    with live.app.state.collector.store.read() as repositories:
        return repositories.step_thinning.with_steps(**limits)


def _tasks_of_runs(policy, repositories):
    """Return the tasks that concern a run; the audit log and silences have a bound of their own."""
    return [task for task in policy.find_tasks(repositories) if task.run_id]


def test_nothing_is_removed_by_default(keeping, database_url, clock):
    """After a year of silence everything of the run is there."""
    live = keeping()
    run_id = send_everything(live, "r")
    held = count_rows(database_url, run_id)
    clock.now += 365 * DAY
    with live.app.state.collector.store.write() as repositories:
        policy = RetentionPolicy(Settings(), clock=clock)
        assert not policy.deletes_runs(repositories)
        assert _tasks_of_runs(policy, repositories) == []
    assert count_rows(database_url, run_id) == held | {"alerts": count_rows(database_url, run_id)["alerts"]}


def test_raw_records_of_old_steps_are_removed_and_the_run_goes_on(keeping, database_url):
    """The newest ten steps keep their records, with the others of their block; a repeated record is a duplicate."""
    live = keeping(record_steps=10)
    run_id = live.run(run="r", records=[_step(step) for step in range(100)])
    begin_of_block = 90 // SPAN * SPAN
    eventually(lambda: _bodies(database_url, run_id) == {(step, 0) for step in range(begin_of_block, 100)})
    again = live.send(run="r", records=[_step(step) for step in range(100)])
    assert (again["accepted"], again["duplicates"]) == (0, 100)
    assert live.send(run="r", records=[_step(100, warn=1.0)])["judged_step"] == 100
    assert [alert["opened_step"] for alert in live.get(f"/runs/{run_id}/alerts")["items"]] == [100]
    assert live.send(run="r", attempt=2, records=[_step(50)])["judged_step"] == 50
    assert len(live.get(f"/runs/{run_id}/steps", limit=1000)["items"]) == 101
    live.send(run="r", attempt=2, records=[_step(step) for step in range(51, 60)])
    eventually(lambda: _bodies(database_url, run_id) == {(step, 0) for step in range(50, 60)})


def test_the_audit_log_says_once_that_a_run_that_trains_loses_its_old_records(keeping, database_url):
    """An entry for each slice would be thousands a day, among which nobody finds the changes of people."""
    live, run_id = keeping(record_steps=10), wire.run_id("default", "r")
    for begin in range(0, 4 * SPAN, SPAN):
        live.send(run="r", records=[_step(step) for step in range(begin, begin + SPAN)])
        eventually(lambda begin=begin: min(_bodies(database_url, run_id)) == (begin, 0))
    entries = [entry for entry in live.get("/audit", limit=1000)["items"] if entry["by"] == "retention"]
    assert [(entry["action"], entry["target"]) for entry in entries] == [("run.remove_records", run_id)]


def test_the_newest_steps_keep_their_records_whatever_their_numbers(keeping, database_url):
    """A trainer that counts samples: ten steps are ten steps, and not ten numbers."""
    live = keeping(record_steps=10)
    numbers = range(0, 50_000, 500)
    run_id = live.run(run="r", records=[_step(step) for step in numbers])
    eventually(lambda: len(_bodies(database_url, run_id)) < 10 + SPAN)
    assert {(step, 0) for step in numbers[-10:]} <= _bodies(database_url, run_id)


def test_the_newest_steps_keep_their_records_in_whatever_attempt_they_are(keeping, database_url):
    """After a restart a rank of the attempt before may still send what it has on its disk."""
    live = keeping(record_steps=10)
    run_id = live.run(run="r", records=[_step(step) for step in range(3 * SPAN)])
    eventually(lambda: min(_bodies(database_url, run_id)) == (2 * SPAN, 0))
    live.send(run="r", attempt=2, records=[_step(step) for step in range(3 * SPAN, 3 * SPAN + 4)])
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 3 * SPAN + 3)
    other = live.run(run="other", records=[_step(step) for step in range(3 * SPAN)])
    eventually(lambda: min(_bodies(database_url, other)) == (2 * SPAN, 0))
    assert min(_bodies(database_url, run_id)) == (2 * SPAN, 0)
    live.send(run="r", attempt=3, records=[_step(step) for step in range(3 * SPAN, 4 * SPAN)])
    eventually(lambda: min(_bodies(database_url, run_id)) == (3 * SPAN, 0))


def test_a_run_that_begins_again_before_it_has_as_many_steps_as_may_stay_loses_old_records(keeping, database_url):
    """Four attempts of one block each, of which the newest two hold the newest steps."""
    live = keeping(record_steps=2 * SPAN)
    for attempt in range(1, 5):
        run_id = live.run(run="r", attempt=attempt, records=[_step(step) for step in range(SPAN)])
    kept = sqlalchemy.select(records.c.attempt).where(records.c.run_id == run_id, records.c.body != b"").distinct()

    def attempts_with_records():
        engine = sqlalchemy.create_engine(database_url)
        with engine.connect() as connection:
            found = set(connection.execute(kept).scalars())
        engine.dispose()
        return found

    eventually(lambda: attempts_with_records() == {3, 4})


def test_records_of_an_attempt_stay_though_the_one_before_has_sent_a_kept_step_later(start_collector, database_url):
    """The process before had its last steps on its disk, and they stand behind the new attempt in the log."""
    live = start_collector()
    for attempt, first in ((1, 0), (2, 0), (1, SPAN)):
        run_id = live.run(run="r", attempt=attempt, records=[_step(first + step) for step in range(SPAN)])
    assert (2 * SPAN - 1, 0) in _bodies(database_url, run_id)
    with live.app.state.collector.store.write() as repositories:
        removed, _ = repositories.record_thinning.thin_records(run_id, kept_steps=SPAN + 1, limit=10 * SPAN)
    assert removed == SPAN
    assert _bodies(database_url, run_id) == {(step, 0) for step in range(2 * SPAN)}  # 0 to SPAN of attempt 2


def test_a_step_that_waits_keeps_its_records(keeping, database_url):
    """The records of a rank stay until the other ranks have reported the step."""
    live = keeping(record_steps=1)
    both = {"run": "r", "world_size": 2}
    run_id = live.run(rank=0, records=[_step(0) | {"summaries": _share(2.0)}], **both)
    live.send(rank=0, records=[_step(step) for step in range(1, 20)], **both)
    other = [{"step": step, "summaries": _share(4.0)} for step in range(20)]
    live.send(rank=1, records=other[1:], **both)
    assert (0, 0) in _bodies(database_url, run_id)
    live.send(rank=1, records=other[:1], **both)
    assert live.get(f"/runs/{run_id}/steps")["items"][0]["signals"] == {"a": 0.0, "loss": 3.0}
    for rank in (0, 1):
        live.send(rank=rank, records=[_step(20)], **both)
    eventually(lambda: _bodies(database_url, run_id) == {(20, 0), (20, 1)})


def test_a_shard_that_comes_after_the_records_of_its_step_are_removed_changes_nothing(keeping, database_url, caplog):
    """It is stored once; the step keeps the mean of the shares that it had, and the log says so."""
    live = keeping(record_steps=1)
    both = {"run": "r", "world_size": 2}
    for step in range(3):
        for rank in (0, 1):
            run_id = live.run(rank=rank, records=[_step(step) | {"summaries": _share(2.0)}], **both)
    eventually(lambda: _bodies(database_url, run_id) == {(2, 0), (2, 1)})
    late = {"step": 0, "seq": 77, "summaries": _share(400.0)}
    assert live.send(run="r", rank=1, world_size=2, records=[late])["accepted"] == 1
    assert live.get(f"/runs/{run_id}/steps")["items"][0]["signals"] == {"a": 0.0, "loss": 2.0}
    assert "comes after the others of its step were removed by retention" in caplog.text
    assert live.send(run="r", rank=1, world_size=2, records=[late])["duplicates"] == 1


def test_a_silent_run_is_thinned_to_what_detection_has_found(keeping, database_url, clock):
    """Records and responses go, steps are thinned but not around the alert; alerts and phases stay."""
    live = keeping(record_days=10, response_days=20, step_days=30, thinned_steps=40, stall_minimum_seconds=1e9)
    run_id = send_everything(live, "r", steps=900)
    live.send(run="r", end="finished", rank=1, world_size=2, schema_version=2, records=[_step(901)])
    held = count_rows(database_url, run_id)
    answers = {path: live.get(f"/runs/{run_id}{path}") for path in ("/alerts", "/phases", "/actions")}
    live.get("/runs")
    clock.now += 11 * DAY
    eventually(lambda: _bodies(database_url, run_id) == set())
    assert count_rows(database_url, run_id) == held
    clock.now += 10 * DAY
    eventually(lambda: count_rows(database_url, run_id)["responses"] == 0)
    assert count_rows(database_url, run_id)["steps"] == held["steps"]
    clock.now += 10 * DAY
    steps = [*range(105), *range(128, 901, 32), 901]
    eventually(lambda: count_rows(database_url, run_id)["steps"] == len(steps))
    assert [step["step"] for step in live.get(f"/runs/{run_id}/steps", limit=1000)["items"]] == steps
    (series,) = live.get(f"/runs/{run_id}/series", signals="reward/mean", max_points=10_000)["items"]
    assert series["steps"] == [step for step in steps if step < 900] + [901]
    assert {path: live.get(f"/runs/{run_id}{path}") for path in answers} == answers
    live.send(run="r", attempt=2, schema_version=2, records=[_step(899)])
    assert live.get(f"/runs/{run_id}")["last_step"] == 899


def test_a_thinned_run_that_goes_on_from_an_earlier_step_is_thinned_again(keeping, database_url, clock):
    """Its new attempt ends before the step up to which the run was thinned, and has as many steps as may stay."""
    live = keeping(step_days=30, thinned_steps=16, stall_minimum_seconds=1e9)
    run_id = live.run(run="r", records=[_step(step) for step in range(400)])
    clock.now += 31 * DAY
    eventually(lambda: count_rows(database_url, run_id)["steps"] <= 16 + 1)
    live.send(run="r", attempt=2, records=[_step(step) for step in range(300)])
    clock.now += 31 * DAY
    eventually(lambda: count_rows(database_url, run_id)["steps"] <= 2 * (16 + 1))
    assert live.get(f"/runs/{run_id}/steps", limit=1000)["items"][-1]["step"] == 399


def test_a_run_that_sends_again_before_its_turn_loses_nothing(start_collector, database_url, clock):
    """The data of many silent runs takes hours to remove; one of them may go on meanwhile."""
    live = start_collector(clock=clock, stall_minimum_seconds=1e9)
    run_id = live.run(schema_version=2, run="r", records=[_step(step) for step in range(100)])
    clock.now += 2 * DAY
    kept = Settings(record_days=1.0, response_days=1.0, step_days=1.0, thinned_steps=10)
    policy, store = RetentionPolicy(kept, clock=clock), live.app.state.collector.store
    with store.write() as repositories:
        repositories.responses.add(run_id, attempt=1, step=0, rank=0, new=[sampled()], max_per_step=64)
        tasks = _tasks_of_runs(policy, repositories)
    assert {task.kind for task in tasks} == {"records", "responses", "steps"}
    live.send(run="r", records=[_step(100)])
    held = count_rows(database_url, run_id), _bodies(database_url, run_id)
    with store.write() as repositories:
        assert [policy.remove_slice(repositories, task).rows for task in tasks] == [0, 0, 0]
    assert (count_rows(database_url, run_id), _bodies(database_url, run_id)) == held


def _thin_steps(live, run_id, *, stride):
    with live.app.state.collector.store.write() as repositories:
        return repositories.step_thinning.thin_steps(run_id, most=64, stride=stride)


def test_thinning_keeps_steps_whatever_their_numbers(start_collector, monkeypatch):
    """A run of as few steps as may stay loses none; of a longer one the first of every so many numbers stays."""
    monkeypatch.setattr(step_thinning, "STEPS_PER_SLICE", 50)
    live = start_collector(stall_minimum_seconds=1e9)
    runs = {
        "odd": (range(5, 505, 10), 1),
        "stray": ([*range(50), 10**9], 1),
        "long": (range(1, 1_001, 5), 16),
        "jump": ([*range(200), *range(10**9, 10**9 + 200)], 8),
    }
    for name, (numbers, stride) in runs.items():
        run_id = live.run(run=name, records=[_step(step) for step in numbers])
        with noted_statements() as noted:
            _, rest = _thin_steps(live, run_id, stride=None)
            while rest is not None:
                noted.clear()
                _, rest = _thin_steps(live, run_id, stride=rest)
                assert not any("RECURSIVE" in statement for statement, _ in noted), "the steps are counted once"
        firsts = {step // stride: step for step in reversed(numbers)}
        kept = [step["step"] for step in live.get(f"/runs/{run_id}/steps", limit=1000)["items"]]
        assert kept == sorted({*firsts.values(), numbers[-1]}), name


def test_old_responses_that_a_run_leaves_when_it_ends_are_thinned(keeping, database_url, clock):
    """Its last batches thin a bounded number; a minute after them the others are removed up to its limit."""
    live = keeping(response_steps=10)
    responses = [sampled() for _ in range(20)]
    for begin in range(0, 64, 16):
        records = [_step(step) | {"seq": step} for step in range(begin, begin + 16)]
        run_id = live.run(schema_version=2, run="r", records=records)
    engine = sqlalchemy.create_engine(database_url)
    with live.app.state.collector.store.write() as repositories:
        for step in range(64):
            repositories.responses.add(run_id, attempt=1, step=step, rank=0, new=responses, max_per_step=64)
    clock.now += 61
    query = sqlalchemy.select(tables.responses.c.step).distinct().order_by(tables.responses.c.step)

    def kept():
        with engine.connect() as connection:
            return list(connection.execute(query).scalars())

    # The newest ten of 64 steps, and one in 2³ before them: 63 // 8 is less than ten.
    eventually(lambda: kept() == [*range(0, 54, 8), *range(54, 64)])

    def due(kept_steps):
        with live.app.state.collector.store.read() as repositories:
            return repositories.response_thinning.with_old_responses(silent_since=clock.now, kept_steps=kept_steps)

    eventually(lambda: due(10) == [])
    assert due(9) == [run_id]
    records = [_step(step) | {"seq": step} for step in range(60, 64)]
    live.run(schema_version=2, run="r", attempt=2, records=records)  # resumed, and ends at the same step
    with live.app.state.collector.store.write() as repositories:
        repositories.responses.add(run_id, attempt=2, step=1, rank=0, new=responses, max_per_step=64)
    clock.now += 61
    eventually(lambda: kept() == [*range(0, 54, 8), *range(54, 64)])
    eventually(lambda: due(10) == [])
    engine.dispose()


def test_a_run_that_is_silent_for_long_is_deleted(keeping, database_url, clock):
    """Another that was heard since stays."""
    live = keeping(run_days=5, lost_expiry_seconds=1e9)
    old = live.run(run="old", records=[_step(0)])
    clock.now += 4 * DAY
    new = live.run(run="new", records=[_step(0)])
    clock.now += 2 * DAY
    eventually(lambda: not any(count_rows(database_url, old).values()))
    assert [run["id"] for run in live.get("/runs")["items"]] == [new]


def test_a_slice_is_bounded_and_one_collector_at_a_time_removes(keeping, database_url, clock):
    """At most 250 records a transaction; while one collector's slice is open on PostgreSQL, another's is refused."""
    live = keeping(retention_seconds=3600)
    half, end = 10 * SPAN, 20 * SPAN
    run_id = live.run(run="r", records=[_step(step) for step in range(half)])
    live.send(run="r", records=[_step(step) for step in range(half, end)])
    policy = RetentionPolicy(Settings(record_steps=1), clock=clock)
    store, other = live.app.state.collector.store, Store.open(database_url)
    with store.read() as repositories:
        (task,) = _tasks_of_runs(policy, repositories)
    sizes = []
    for _ in range(3):
        with store.write() as repositories:
            assert repositories.lock_maintenance()
            if other.is_shared:
                with other.write() as others:
                    assert not others.lock_maintenance()
            sizes.append(policy.remove_slice(repositories, task))
    whole_blocks = ROWS_PER_SLICE // SPAN * SPAN
    assert [(slice_.rows, slice_.rest is not None) for slice_ in sizes] == [
        (whole_blocks, True), (whole_blocks, True), (end - SPAN - 2 * whole_blocks, False),
    ]  # fmt: skip
    assert _bodies(database_url, run_id) == {(step, 0) for step in range(end - SPAN, end)}
    with store.read() as repositories:
        assert [repositories.record_thinning.with_more_steps(kept) for kept in (1, 2)] == [[], [run_id]]
    live.send(run="r", records=[_step(end)])
    eventually(lambda: live.is_projected(run_id))
    with store.read() as repositories:
        assert repositories.record_thinning.with_more_steps(1) == [run_id]
    other.close()


def test_who_reads_a_thinned_run_or_its_export_is_told_so(keeping, database_url, clock, tmp_path):
    """Its phases and alerts may differ. An earlier export has no such note, nor has that of a run that lost nothing."""
    live = keeping(step_days=1.0, thinned_steps=4, stall_minimum_seconds=1e9)
    short = live.run(run="b", records=[_step(step) for step in range(4)])
    sparse = live.run(run="c", records=[_step(step) for step in range(0, 40, 10)])
    long = live.run(run="a", records=[_step(step) for step in range(20)])
    eventually(lambda: live.is_projected(long))

    def notes(run_id):
        found = []
        for form in ("jsonl", "parquet"):
            answer = live.pool.request("GET", f"{live.url}/api/v1/runs/{run_id}/export", fields={"format": form})
            (tmp_path / f"run.{form}").write_bytes(answer.data)
            (log,) = find_logs([tmp_path / f"run.{form}"], [], pytest.fail)
            report = ReadReport()
            assert list(log.read(report))
            found.append(report.notes)
        return found

    assert notes(long) == [[], []]
    clock.now += 2 * DAY
    eventually(lambda: count_rows(database_url, long)["steps"] < 20)
    eventually(lambda: _runs_to_thin(live, silent_since=clock.now, most=4) == [])
    lines, columns = notes(long)
    assert lines == columns
    assert notes(short) == notes(sparse) == [[], []]
    assert "retention had thinned the steps of this run" in lines[0]
    assert [live.get(f"/runs/{each}")["thinned"] for each in (long, short, sparse)] == [True, False, False]


@sqlite_only
def test_a_run_that_cannot_be_thinned_costs_no_other_run(keeping, database_url, clock):
    """SQLite takes a text for a number; the run behind the damaged one is thinned all the same."""
    live = keeping(step_days=1.0, thinned_steps=4, stall_minimum_seconds=1e9)  # an alert would keep the steps around it
    damaged, well = (live.run(run=name, records=[_step(step) for step in range(20)]) for name in ("a", "b"))
    for run_id in (damaged, well):
        eventually(lambda run_id=run_id: live.get(f"/runs/{run_id}")["last_step"] == 19)
    engine = sqlalchemy.create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE runs SET last_step = 'x' WHERE id = :run"), {"run": damaged})
    engine.dispose()
    clock.now += 2 * DAY
    eventually(lambda: count_rows(database_url, well)["steps"] < 20)
    assert count_rows(database_url, damaged)["steps"] == 20


def test_more_runs_than_a_statement_has_parameters_are_deleted(keeping, database_url):
    """PostgreSQL takes 65,535 of them, and SQLite some 250,000."""
    runs = 70_000 if database_url.startswith("postgresql") else 300_000
    live = keeping(role="web")
    with live.app.state.collector.store.write() as repositories:
        repositories.deletion.begin_deletion([f"{number:x}" for number in range(runs)], now=1.0)
        assert repositories.deletion.deleted_runs() == []


def test_a_record_of_a_thinned_step_brings_the_whole_step_back(keeping, clock):
    """Alone it would be a step without the numbers that the step had. A step that never was has what is sent."""
    live = keeping(step_days=30, thinned_steps=4, stall_minimum_seconds=1e9)
    run_id = live.run(run="r", records=[_step(step) for step in range(40) if step != 21])
    clock.now += 31 * DAY
    eventually(lambda: len(live.get(f"/runs/{run_id}/steps")["items"]) == 4)
    kept = live.get(f"/runs/{run_id}/steps")["items"]
    late = [{"step": step, "seq": 100 + step, "scalars": {"b": 1.0}} for step in (20, 21)]
    assert live.send(run="r", records=late)["accepted"] == 2
    added = [step for step in live.get(f"/runs/{run_id}/steps")["items"] if step not in kept]
    assert [(step["step"], step["signals"]) for step in added] == [(20, {"a": 20.0, "b": 1.0}), (21, {"b": 1.0})]


def test_an_entry_from_a_clock_that_was_ahead_keeps_no_older_ones(store):
    """The entries behind it are removed by their own age."""
    with store.write() as repositories:
        for at in (1e9, 1.0, 2.0):
            record_change(repositories, ANYBODY, "run.label", "r", now=at)
        assert not repositories.audit_log.has_old(before=1.0)
        assert repositories.audit_log.has_old(before=2.0)
        assert repositories.audit_log.remove_old(before=2.0, limit=9) == 1
        assert [entry["at"] for entry in repositories.audit_log.page(limit=9)] == [2.0, 1e9]


def test_many_entries_from_a_clock_that_was_ahead_keep_no_older_ones(store, clock, monkeypatch):
    """The whole log is read once a day."""
    monkeypatch.setattr(audit_log, "FIRST_ENTRIES", 2)
    policy = RetentionPolicy(Settings(), clock=clock)
    with store.write() as repositories:
        for at in (1e12, 1e12, -1e12):
            record_change(repositories, ANYBODY, "run.label", "r", now=at)
        found = []
        for seconds in (0, DAY / 2, DAY / 2):
            clock.now += seconds
            found.append([task.kind for task in policy.find_tasks(repositories)])
    assert found == [["audit_entries"], [], ["audit_entries"]]
