"""Steps: ranks merge, deadlines pass, attempts begin; detection receives each step once and in order."""

import msgspec
import pytest

from tests.live import eventually


def _moments(total, count):
    return {"type": "moments", "sum": total, "count": count}


def _send(live, rank, step, *, world_size=2, attempt=1, **record):
    return live.send(
        run="r", rank=rank, world_size=world_size, attempt=attempt, records=[{"step": step, "seq": step, **record}]
    )


def _steps(live):
    (run,) = live.get("/runs")["items"]
    return live.get(f"/runs/{run['id']}/steps")["items"]


def _seen(live):
    """The steps that the scripted engine received, from the state in the store."""
    (run,) = live.get("/runs")["items"]
    with live.app.state.collector.store.read() as repositories:
        saved = repositories.detector_states.load(run["id"])
    return [] if saved is None else msgspec.msgpack.decode(saved.state)["seen"]


@pytest.fixture
def live(start_collector, scripted, clock):
    return start_collector(engine=scripted, clock=clock, step_deadline_seconds=60)


def test_a_step_is_complete_when_all_ranks_have_reported(live):
    """Two ranks' shares merge: (6 + 2) / (3 + 1) = 2; scalars are those of rank 0; before, there is no step."""
    _send(live, 1, 0, scalars={"lr": 9.0}, summaries={"loss": _moments(2.0, 1)})
    assert _steps(live) == []
    _send(live, 0, 0, scalars={"lr": 1.0}, summaries={"loss": _moments(6.0, 3)})
    (step,) = _steps(live)
    assert step["signals"] == {"lr": 1.0, "loss": 2.0}
    assert _seen(live) == [[1, 0]]


def test_a_step_is_complete_when_its_deadline_has_passed(live, clock):
    """A rank that never reports delays a step by no more than the deadline."""
    _send(live, 0, 0, scalars={"a": 1.0})
    clock.now += 59
    _send(live, 0, 1, scalars={"a": 2.0})
    assert _steps(live) == []
    clock.now += 1
    eventually(lambda: [step["step"] for step in _steps(live)] == [0])
    clock.now += 59
    eventually(lambda: [step["step"] for step in _steps(live)] == [0, 1])
    assert _seen(live) == [[1, 0], [1, 1]]
    assert [step["signals"] for step in _steps(live)] == [
        {"a": 1.0, "step/seen_frac": 0.5},
        {"a": 2.0, "step/seen_frac": 0.5},
    ]


def test_a_step_that_waits_holds_back_the_later_ones(live):
    """Step 1 is complete before step 0, and detection still receives step 0 first."""
    _send(live, 0, 0, scalars={"a": 1.0})
    _send(live, 0, 1, scalars={"a": 2.0})
    _send(live, 1, 1)
    assert _steps(live) == []
    _send(live, 1, 0)
    assert [step["step"] for step in _steps(live)] == [0, 1]
    assert _seen(live) == [[1, 0], [1, 1]]


def test_a_late_shard_mends_the_step_and_detection_does_not_see_it_again(live, clock):
    """After the deadline rank 1's share still counts: mean (1 + 3) / 2 = 2."""
    _send(live, 0, 0, summaries={"loss": _moments(1.0, 1)})
    clock.now += 60
    eventually(lambda: _steps(live))
    _send(live, 1, 0, summaries={"loss": _moments(3.0, 1)})
    assert _steps(live)[0]["signals"] == {"loss": 2.0}
    assert _seen(live) == [[1, 0]]


def test_a_summary_that_cannot_merge_is_refused_and_the_step_lives(live):
    """A mean beside a maximum of the same name is refused by name and rank."""
    _send(live, 0, 0, summaries={"loss": _moments(1.0, 1)})
    receipt = _send(live, 1, 0, summaries={"loss": {"type": "extreme", "extreme": 1.0}})
    (rejection,) = receipt["rejected"]
    assert rejection["error"] == "SummaryConflict"
    assert "'loss' at step 0" in rejection["detail"]
    _send(live, 1, 0, summaries={"loss": _moments(3.0, 1)})
    assert _steps(live)[0]["signals"] == {"loss": 2.0}


def test_a_step_that_goes_backwards_mends_history_without_detection(live):
    """Within an attempt, an earlier step is stored in its place; the run's last step stays."""
    for step in (5, 6, 2):
        _send(live, 0, step, world_size=1, scalars={"a": float(step)})
    assert [step["step"] for step in _steps(live)] == [2, 5, 6]
    assert _seen(live) == [[1, 5], [1, 6]]
    assert live.get("/runs")["items"][0]["last_step"] == 6


def test_a_new_attempt_at_a_lower_step_is_a_rewind(live):
    """The newest attempt's value stands at every step, detection gets that attempt, phases are computed again."""
    for step in range(4):
        _send(live, 0, step, world_size=1, attempt=100, scalars={"a": 1.0, "phase": float(step)})
    _send(live, 0, 2, world_size=1, attempt=200, scalars={"a": 2.0, "phase": 1.0})
    (run,) = live.get("/runs")["items"]
    assert (run["attempt"], run["last_step"], run["phase"]) == (2, 2, "healthy")
    (series,) = live.get(f"/runs/{run['id']}/series", signals="a")["items"]
    assert series == {"signal": "a", "steps": [0, 1, 2, 3], "values": [1.0, 1.0, 2.0, 1.0]}
    assert [step["attempt"] for step in _steps(live)] == [1, 1, 2, 1]
    assert _seen(live) == [[100, 0], [100, 1], [100, 2], [100, 3], [200, 2]]
    assert live.get(f"/runs/{run['id']}/phases")["items"] == [
        {"phase": "warmup", "from_step": 0, "to_step": 0},
        {"phase": "healthy", "from_step": 1, "to_step": None},
    ]


def test_a_new_attempt_completes_what_the_old_one_left(live):
    """The old launch is gone: its half-reported step need not wait for the deadline."""
    _send(live, 0, 0, attempt=1, scalars={"a": 1.0})
    _send(live, 0, 0, attempt=2, world_size=1, scalars={"a": 2.0})
    assert _seen(live) == [[1, 0], [2, 0]]
    assert _steps(live)[0]["signals"] == {"a": 2.0}


def test_records_of_an_old_attempt_that_come_late_are_stored_only(live):
    """A spool sent after the restart fills the gaps; detection does not go back."""
    _send(live, 0, 5, world_size=1, attempt=2, scalars={"a": 2.0})
    _send(live, 0, 4, world_size=1, attempt=1, scalars={"a": 1.0})
    assert [(step["step"], step["attempt"]) for step in _steps(live)] == [(4, 1), (5, 2)]
    assert _seen(live) == [[2, 5]]


def test_a_launch_with_a_lower_attempt_than_the_newest_is_named(live, caplog):
    """The log reports it once and each receipt does; an attempt that was known before is only late."""
    assert "newest_attempt" not in _send(live, 0, 0, world_size=1, attempt=1)
    assert "newest_attempt" not in _send(live, 0, 1, world_size=1, attempt=3)
    assert _send(live, 0, 1, world_size=1, attempt=1)["newest_attempt"] == 3
    assert "for the first time" not in caplog.text
    assert [_send(live, 0, step, world_size=1, attempt=2)["newest_attempt"] for step in (1, 2)] == [3, 3]
    assert caplog.text.count("attempt 2 of run 'r' is new and lower than the newest, 3") == 1


def test_a_process_that_starts_again_in_its_attempt_takes_its_end_back(live):
    """The failure that a rank reported ends no run after rank 0 has restarted; a late record does not change that."""
    live.send(run="r", config={"lr": 1.0}, end="stopped")
    live.send(run="r", config={"lr": 1.0}, records=[{"step": 0, "scalars": {"a": 1.0}}])
    assert live.get("/runs")["items"][0]["status"] == "stopped"
    run_id = live.run(run="r", config={})
    run = live.get(f"/runs/{run_id}")
    assert (run["status"], run["config"]) == ("running", {"lr": 1.0})


def test_a_late_end_of_an_earlier_process_ends_no_run_that_trains(live):
    """The next record of that rank takes the end back, because a process reports its end after all its records."""
    _send(live, 0, 0, world_size=1, scalars={"a": 1.0})
    run_id = live.run(run="r", config={})
    live.send(run="r", end="stopped")
    assert live.get(f"/runs/{run_id}")["status"] == "stopped"
    _send(live, 0, 1, world_size=1, scalars={"a": 1.0})
    assert live.get(f"/runs/{run_id}")["status"] == "running"
    live.send(run="r", end="finished")
    assert live.get(f"/runs/{run_id}")["status"] == "finished"


@pytest.mark.parametrize("last", [None, 1])
def test_a_rank_that_leaves_early_ends_no_run_whose_other_ranks_train_on(live, last):
    """A rank that has logged all steps so far, or none, ends the run until another rank logs a later step."""
    if last is not None:
        _send(live, 1, last, scalars={"a": 1.0})
    live.send(run="r", rank=1, world_size=2, end="finished")
    run_id = live.get("/runs")["items"][0]["id"]
    if last is not None:
        _send(live, 0, last, scalars={"a": 1.0})
    assert live.get(f"/runs/{run_id}")["status"] == "finished"
    _send(live, 0, 2, scalars={"a": 1.0})
    assert live.get(f"/runs/{run_id}")["status"] == "running"
    live.send(run="r", rank=0, world_size=2, end="finished")
    assert live.get(f"/runs/{run_id}")["status"] == "finished"


def test_late_records_of_a_run_that_a_rank_has_stopped_leave_it_stopped(live):
    """An exception on one rank ends all of them, and the spool of another one may be sent much later."""
    _send(live, 1, 1, scalars={"a": 1.0})
    live.send(run="r", rank=1, world_size=2, end="stopped")
    _send(live, 0, 2, scalars={"a": 1.0})
    assert live.get("/runs")["items"][0]["status"] == "stopped"


def test_a_second_attempt_with_more_ranks_shows_which_share_of_them_was_seen(live, clock):
    """Its first batch has no record, and its second one has no signal that the attempt with one rank has not had."""
    _send(live, 0, 0, world_size=1, scalars={"a": 1.0})
    live.send(run="r", attempt=2, world_size=2, config={})
    _send(live, 0, 1, attempt=2, scalars={"a": 1.0})
    clock.now += 60
    eventually(lambda: [step["step"] for step in _steps(live)] == [0, 1])
    assert _steps(live)[1]["signals"] == {"a": 1.0, "step/seen_frac": 0.5}


def test_a_late_step_of_an_earlier_attempt_with_more_ranks_shows_which_share_of_them_was_seen(live):
    """The newest attempt has one rank, and its steps have no such share."""
    _send(live, 0, 1, world_size=1, attempt=2, scalars={"a": 1.0})
    _send(live, 0, 0, world_size=2, attempt=1, scalars={"a": 1.0})
    assert [step["signals"] for step in _steps(live)] == [{"a": 1.0, "step/seen_frac": 0.5}, {"a": 1.0}]


def test_a_late_step_of_an_attempt_whose_ranks_an_operator_has_corrected_shows_the_share_as_well(live):
    """The trainer says one rank, and the correction says two."""
    _send(live, 0, 0, world_size=1, attempt=1, scalars={"a": 1.0})
    run_id = live.get("/runs")["items"][0]["id"]
    assert live.pool.request("POST", f"{live.url}/api/v1/runs/{run_id}/reset", json={"world_size": 2}).status == 200
    _send(live, 0, 2, world_size=1, attempt=2, scalars={"a": 1.0})
    _send(live, 0, 1, world_size=1, attempt=1, scalars={"a": 1.0})
    assert _steps(live)[1]["signals"] == {"a": 1.0, "step/seen_frac": 0.5}


def test_late_records_of_an_ended_run_leave_it_ended(live):
    """Those are records of another rank, records that were sent before, and records before the last one of the rank."""
    for step in (0, 2):
        _send(live, 1, step, world_size=2, scalars={"a": 1.0})
    live.send(run="r", rank=1, world_size=2, end="stopped")
    for rank, step in ((0, 0), (0, 2), (1, 2), (1, 1)):
        _send(live, rank, step, world_size=2, scalars={"a": 1.0})
        assert live.get("/runs")["items"][0]["status"] == "stopped"
    _send(live, 1, 3, world_size=2, scalars={"a": 1.0})
    assert live.get("/runs")["items"][0]["status"] == "running"


def test_a_failing_detector_costs_no_record(live):
    """The step is stored, an alert says that detection failed, and the next step is detected."""
    _send(live, 0, 0, world_size=1, scalars={"fail": 1.0})
    (run,) = live.get("/runs")["items"]
    (alert,) = live.get(f"/runs/{run['id']}/alerts")["items"]
    assert (alert["kind"], alert["state"], run["phase"]) == ("monitor_degraded", "firing", "unknown")
    _send(live, 0, 1, world_size=1, scalars={"fail": 0.0})
    assert live.get(f"/runs/{run['id']}/alerts")["items"][0]["state"] == "resolved"
    assert _seen(live) == [[1, 1]]


def test_detection_goes_on_from_its_saved_state_after_a_restart(start_collector, scripted):
    """A second collector on the same database continues from the state that the first one saved."""
    first = start_collector(engine=scripted)
    _send(first, 0, 0, world_size=1, scalars={"a": 1.0})
    second = start_collector(engine=scripted)
    _send(second, 0, 1, world_size=1, scalars={"a": 1.0})
    eventually(lambda: _seen(second) == [[1, 0], [1, 1]])
