import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed import HashStore

import trainer_hooks
from trainer_hooks.actions import Decision
from trainer_hooks.callbacks.agreement import PATIENCE_SECONDS, Agreement, Refusing, settlement
from trainer_hooks.wire import AlertNotice, Receipt, decode_record

STEPS = 12
WORKER = Path(__file__).with_name("ddp_actions.py")


def decision(name="a", action="stop"):
    """A decision about an alert."""
    return Decision(action, AlertNotice(id=name, kind="k", severity="critical", opened_step=1, summary="s"))


class Rank:
    """A rank that goes through its steps as the test lets it, and hears of alerts after some of them."""

    def __init__(self, rank, world_size, store, heard_after, clock):
        self.agreement = Agreement(store, rank=rank, world_size=world_size, clock=lambda: clock[0])
        self.heard_after = heard_after
        self.step = 0
        self.taken, self.refused = {}, set()

    def end_step(self):
        """End a step: hear, ask, act."""
        self.step += 1
        new = [decision(name) for name, step in self.heard_after.items() if step == self.step]
        for verdict in self.agreement.due(new, self.step):
            if verdict.refusal is None:
                self.taken[verdict.decision.alert.id] = self.step
            else:
                self.refused.add(verdict.decision.alert.id)


@given(data=st.data(), world_size=st.integers(2, 4))
def test_whatever_the_ranks_hear_and_however_they_race_all_do_the_same_after_the_same_step(data, world_size):
    """A rank ends a step only after all have entered it, as a collective makes it; time passes as it likes."""
    store, clock = HashStore(), [0.0]
    hearing = st.dictionaries(st.sampled_from("ab"), st.integers(1, STEPS))
    ranks = [Rank(rank, world_size, store, data.draw(hearing), clock) for rank in range(world_size)]
    while any(rank.step < STEPS for rank in ranks):
        slowest = min(rank.step for rank in ranks)
        ready = [rank for rank in ranks if rank.step == slowest and rank.step < STEPS]
        data.draw(st.sampled_from(ready)).end_step()
        clock[0] += data.draw(st.sampled_from([0.0, PATIENCE_SECONDS / 4]))
    first, *others = ranks
    assert all(rank.taken == first.taken for rank in others)
    for name in first.taken:
        assert all(rank.heard_after[name] < first.taken[name] for rank in ranks)


def test_who_hears_nothing_asks_nothing():
    """Without a decision the store is not touched: there is none."""
    agreement = Agreement(None, rank=1, world_size=2)
    assert agreement.due([], 1) == []


def test_all_that_hear_at_once_act_after_the_next_but_one_step():
    """Heard after 1: proposed and armed by 2, fixed for 3 at the latest."""
    store, clock = HashStore(), [0.0]
    ranks = [Rank(rank, 2, store, {"a": 1}, clock) for rank in range(2)]
    for _ in range(STEPS):
        for rank in ranks:
            rank.end_step()
    assert [rank.taken for rank in ranks] == [{"a": 3}, {"a": 3}]


def test_a_refusal_says_how_many_have_heard():
    """Rank 0 gives up after its patience, and so does who waits for it."""
    store, clock = HashStore(), [0.0]
    leader, deaf = (Rank(rank, 2, store, {"a": 1} if rank == 0 else {}, clock) for rank in range(2))
    leader.end_step()
    deaf.end_step()
    clock[0] = PATIENCE_SECONDS + 1
    (verdict,) = leader.agreement.due([], 2)
    assert verdict.refusal == "only 1 of 2 ranks heard of the alert within 60 s"
    assert verdict.is_reported_here


def test_to_notify_needs_nobody_else():
    """Each rank has logged it; rank 0 reports it."""
    for rank in range(2):
        (verdict,) = Agreement(None, rank=rank, world_size=2).due([decision(action="notify")], 1)
        assert (verdict.refusal, verdict.is_reported_here) == (None, rank == 0)


def test_processes_without_a_process_group_refuse():
    """Nothing is done that one of them might not do."""
    agreement = settlement(2)
    assert isinstance(agreement, Refusing)
    (verdict,) = agreement.due([decision()], 1)
    assert "cannot agree" in verdict.refusal


# When each rank hears of the alert; None is never.
STORIES = {"at once": (3, 3), "one later": (2, 6), "deaf follower": (3, None), "deaf leader": (None, 3)}


@pytest.fixture
def answers(collector):
    """Let each rank of each story hear of the alert from its step on."""

    def receipt(batch):
        heard = STORIES[batch.run][batch.rank]
        steps = [decode_record(raw).step for raw in batch.records]
        is_heard = heard is not None and bool(steps) and max(steps) >= heard
        notice = AlertNotice(id=f"a-{batch.run}", kind="k", severity="critical", opened_step=1, summary="s")
        return Receipt(run_id="r", accepted=len(steps), alerts=[notice] if is_heard else [])

    collector.receipt = receipt
    return collector


def test_two_processes_stop_after_the_same_step_or_not_at_all(answers, tmp_path):
    """Real processes, a real gloo group: nobody hangs, whoever hears when, and what was done or not is recorded."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
    processes = []
    for rank in range(2):
        ranks = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environ = os.environ | ranks | {"RLVITALS_URL": answers.url, "RLVITALS_ATTEMPT": "1", "OMP_NUM_THREADS": "1"}
        environ["PYTHONPATH"] = str(Path(trainer_hooks.__file__).parents[1])
        command = [sys.executable, str(WORKER), str(tmp_path), *STORIES]
        processes.append(subprocess.Popen(command, env=environ))
    try:
        assert [process.wait(120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    found = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    for story, (first, second) in STORIES.items():
        here, there = found[0][story], found[1][story]
        assert here == there
        last_heard = None if None in (first, second) else max(first, second)
        assert (here["stopped_after"] is None) == (last_heard is None)
        assert last_heard is None or here["stopped_after"] > last_heard
    reports = {
        (batch.run, report.outcome, report.reason)
        for batch in answers.batches
        for raw in batch.records
        for report in decode_record(raw).actions
    }
    reason = "critical k since step 1: s"
    assert reports == {
        ("at once", "taken", reason),
        ("one later", "taken", reason),
        ("deaf follower", "refused", reason),
        ("deaf leader", "refused", reason),
    }
