import json
from pathlib import Path

import pytest
import tiny_trl

from tests.ranks import launch
from trainer_hooks.callbacks.shared.hf_trainer.checkpoints import STOP_FILE
from trainer_hooks.wire import AlertNotice, Receipt, decode_record

WORKER = Path(__file__).with_name("ddp_actions.py")

# The step after which each rank receives its alert; None means never.
STORIES = {"at once": (3, 3), "one later": (2, 6), "deaf follower": (3, None), "deaf leader": (None, 3)}
TRL_STORIES = ("TRL", "deaf TRL")
# Alerts by kind, in the order in which they fire, with the first step at which each fires.
TRL_ALERTS = {"plateau": 1, "ratio_tail": 2, "likelihood_drift": 4, "run_collapsed": 6}


@pytest.fixture
def answers(collector):
    """Make the collector send each rank the alerts of its scenario."""

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
    """In a real gloo group no rank hangs, whichever receives an alert first, and each outcome is reported."""
    for story in TRL_STORIES:
        tiny_trl.model(tmp_path / story / "model")  # before two ranks write it at once
    launch(WORKER, str(tmp_path), *STORIES, *TRL_STORIES, RLVITALS_URL=answers.url)
    first, second = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2))
    assert first == second
    for story, heard in STORIES.items():
        stopped_after = first[story]["stopped_after"]
        assert (stopped_after is None) == (None in heard)
        assert stopped_after is None or stopped_after > max(heard)
    reports = {
        (batch.run, report.action, report.outcome)
        for batch in answers.batches
        for raw in batch.records
        for report in decode_record(raw).actions
    }
    assert reports == {
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
