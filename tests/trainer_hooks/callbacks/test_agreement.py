import json
from pathlib import Path

import pytest
import tiny_trl
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed import HashStore

from tests.ranks import launch
from trainer_hooks.actions import Decision
from trainer_hooks.callbacks.parts.trainer_actions import STOP_FILE
from trainer_hooks.ranks.agreement import PATIENCE_SECONDS, Agreement, Refusing, settlement
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


# After which step each rank hears; None is never.
STORIES = {"at once": (3, 3), "one later": (2, 6), "deaf follower": (3, None), "deaf leader": (None, 3)}
TRL_STORIES = ("TRL", "deaf TRL")
# In the order in which they fire: the run's health, and the step from which on they do.
TRL_ALERTS = {"plateau": 1, "ratio_tail": 2, "likelihood_drift": 4, "run_collapsed": 6}


@pytest.fixture
def answers(collector):
    """Let each rank of each story hear of its alerts."""

    def firing(run, rank, step):
        if run == "deaf TRL":
            return ["run_collapsed"] if rank == 0 else []
        if run == "TRL":
            return [kind for kind, first in TRL_ALERTS.items() if step >= first]
        heard = STORIES[run][rank]
        return [] if heard is None or step < heard else ["k"]

    def receipt(batch):
        step = max((decode_record(raw).step for raw in batch.records), default=0)
        kinds = firing(batch.run, batch.rank, step)
        alerts = [
            AlertNotice(
                id=f"{kind} {batch.run}",
                kind=kind,
                severity="critical",
                opened_step=TRL_ALERTS.get(kind, 1),
                summary="s",
            )
            for kind in kinds
        ]
        return Receipt(
            run_id="r", accepted=len(batch.records), phase="healthy", judged_step=step or None, alerts=alerts
        )

    collector.receipt = receipt
    return collector


@pytest.mark.slow
def test_two_processes_act_after_the_same_step_or_not_at_all(answers, tmp_path):
    """A real gloo group, a plain loop and TRL: nobody hangs, whoever hears when, and what was done or not is told."""
    for story in TRL_STORIES:
        tiny_trl.model(tmp_path / story / "model")  # before two ranks write it at once
    launch(WORKER, str(tmp_path), *STORIES, *TRL_STORIES, RLVITALS_URL=answers.url)
    first, second = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2))
    assert first == second
    for story, heard in STORIES.items():
        stopped_after = first[story]["stopped_after"]
        assert (stopped_after is None) == (None in heard)
        assert stopped_after is None or stopped_after > max(heard)
    told = {
        (batch.run, report.action, report.outcome)
        for batch in answers.batches
        for raw in batch.records
        for report in decode_record(raw).actions
    }
    assert told == {
        ("at once", "stop", "taken"),
        ("one later", "stop", "taken"),
        ("deaf follower", "stop", "refused"),
        ("deaf leader", "stop", "refused"),
        ("TRL", "checkpoint", "taken"),
        ("TRL", "skip_update", "taken"),
        ("TRL", "enable_llds", "taken"),
        ("TRL", "stop", "taken"),
        ("deaf TRL", "stop", "refused"),
    }
    (saved,) = first["TRL"]["saved"]
    stopped = json.loads((tmp_path / "TRL" / STOP_FILE).read_text())
    assert first["TRL"]["llds"] == 0.1
    assert TRL_ALERTS["run_collapsed"] < first["TRL"]["ended"] == stopped["step"] < 12
    assert stopped["last_healthy_checkpoint"] == str(tmp_path / "TRL" / saved)
    assert first["deaf TRL"]["ended"] == 12
    assert first["deaf TRL"]["saved"] == []
