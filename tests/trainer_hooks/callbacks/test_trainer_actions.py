import json

import pytest
import tiny_trl
import torch
from transformers import TrainerCallback
from trl import GRPOTrainer

from tests.live import PATIENCE_SECONDS
from trainer_hooks import ConfigurationError
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.callbacks.shared.hf_trainer.checkpoints import STOP_FILE
from trainer_hooks.callbacks.torch_loop import LoopWatch
from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.losses.trl import LLDSConfig, LLDSGRPOTrainer
from trainer_hooks.wire import AlertNotice, Receipt, decode_record


class Flush(TrainerCallback):
    """A callback that waits for the collector's answer after each step, so that alerts arrive at known steps."""

    def __init__(self, monitor):
        self.monitor = monitor

    def on_step_end(self, args, state, control, **kwargs):  # noqa: ARG002 - the event's signature
        """Wait for the collector's answer."""
        assert self.monitor.flush(PATIENCE_SECONDS)


@pytest.fixture
def alarm(collector):
    """Make the collector judge the run as sick from a step on, and send its alert at that step or later."""

    def alarm(from_step, *, alert_step=None):
        alert_step = alert_step or from_step
        notice = AlertNotice(id="a", kind="drift", severity="critical", opened_step=alert_step, summary="it falls")

        def receipt(batch):
            newest = max((decode_record(raw).step for raw in batch.records), default=None)
            is_sick = newest is not None and newest >= from_step
            phase = "decay" if is_sick else "healthy"
            alerts = [notice] if is_sick and newest >= alert_step else []
            return Receipt(run_id="r", accepted=len(batch.records), phase=phase, judged_step=newest, alerts=alerts)

        collector.receipt = receipt

    return alarm


@pytest.fixture
def reported(collector):
    """A function that returns the reported actions, each with its step."""

    def read():
        records = [decode_record(raw) for batch in collector.batches for raw in batch.records]
        return [(record.step, report) for record in records for report in record.actions]

    return read


@pytest.fixture
def train(tmp_path, connect):
    """Train with a policy of one rule for critical alerts."""

    def train(action, *, dry_run=False, **options):
        policy = ActionPolicy({"critical": action}, dry_run=dry_run)
        monitor = connect(actions=policy)
        callbacks = [VitalsCallback(monitor), Flush(monitor)]
        trainer = tiny_trl.trainer(tmp_path, callbacks, **options)
        trainer.train()
        assert monitor.flush(PATIENCE_SECONDS)
        return trainer

    return train


def test_stop_ends_training_and_leaves_the_last_healthy_checkpoint(train, alarm, tmp_path, steps, reported):
    """The alert of step 3 stops training after step 4, and the file names the checkpoint from before the alert."""
    alarm(3)
    trainer = train("stop", max_steps=20, save_strategy="steps", save_steps=1)
    assert trainer.state.global_step == 4
    stop_file = json.loads((tmp_path / STOP_FILE).read_text())
    assert stop_file["step"] == 4
    assert stop_file["reason"] == "critical drift, open since step 3: it falls"
    assert stop_file["last_healthy_checkpoint"] == str(tmp_path / "checkpoint-2")
    assert steps()[4]["action/stop"] == 1
    assert [(step, report.outcome, report.reason) for step, report in reported()] == [(4, "taken", stop_file["reason"])]


class Outage(TrainerCallback):
    """A callback that makes the collector unavailable after step 2, and available again after step 6."""

    def __init__(self, collector, monitor):
        self.collector, self.monitor = collector, monitor

    def on_step_end(self, args, state, control, **kwargs):  # noqa: ARG002 - the event's signature
        """Wait for the answers where there are some."""
        if state.global_step == 6:
            self.collector.answers.clear()
        if not self.collector.answers:
            assert self.monitor.flush(PATIENCE_SECONDS)
        if state.global_step == 2:
            self.collector.answers = [(503, b"", {})] * 10_000


def test_what_was_saved_while_nobody_answered_is_not_healthy(connect, collector, alarm, tmp_path, monkeypatch):
    """Checkpoints that are saved while the collector is away do not count: the run is sick from step 3 on."""
    monkeypatch.setattr("trainer_hooks.delivery.transport.FIRST_DELAY_SECONDS", 0.0)
    alarm(3, alert_step=6)
    monitor = connect(actions=ActionPolicy({"critical": "stop"}, dry_run=False))
    callbacks = [VitalsCallback(monitor), Outage(collector, monitor)]
    tiny_trl.trainer(tmp_path, callbacks, max_steps=20, save_strategy="steps", save_steps=1).train()
    stop_file = json.loads((tmp_path / STOP_FILE).read_text())
    assert (stop_file["step"], stop_file["last_healthy_checkpoint"]) == (7, str(tmp_path / "checkpoint-2"))


def test_what_was_saved_in_a_sick_phase_is_not_healthy_after_the_phase_has_passed(connect, collector, tmp_path):
    """Verdicts arrive a step late, so step 3 is saved before it is found sick; the run recovers and collapses later."""
    notice = AlertNotice(id="a", kind="drift", severity="critical", opened_step=6, summary="it falls")

    def receipt(batch):
        judged = max((decode_record(raw).step for raw in batch.records), default=0) - 1
        phase = "decay" if judged in (3, 4) or judged >= 6 else "healthy"
        alerts = [notice] if judged >= 6 else []
        return Receipt(
            run_id="r", accepted=len(batch.records), phase=phase, judged_step=max(judged, 0) or None, alerts=alerts
        )

    collector.receipt = receipt
    monitor = connect(actions=ActionPolicy({"critical": "stop"}, dry_run=False))
    callbacks = [VitalsCallback(monitor), Flush(monitor)]
    tiny_trl.trainer(tmp_path, callbacks, max_steps=20, save_strategy="steps", save_steps=3).train()
    assert monitor.healthy_step == 5
    assert (tmp_path / "checkpoint-3").is_dir()
    assert json.loads((tmp_path / STOP_FILE).read_text())["last_healthy_checkpoint"] is None


def test_a_resumed_training_can_go_back_to_where_it_began(connect, alarm, tmp_path):
    """The checkpoint that training resumed from is named, because none that it saves itself is healthy."""
    tiny_trl.trainer(tmp_path, max_steps=3, save_strategy="steps", save_steps=1).train()
    alarm(4)
    monitor = connect(actions=ActionPolicy({"critical": "stop"}, dry_run=False))
    callbacks = [VitalsCallback(monitor), Flush(monitor)]
    trainer = tiny_trl.trainer(tmp_path, callbacks, max_steps=20, save_strategy="steps", save_steps=1)
    trainer.train(resume_from_checkpoint=True)
    stop_file = json.loads((tmp_path / STOP_FILE).read_text())
    assert (stop_file["step"], stop_file["last_healthy_checkpoint"]) == (5, str(tmp_path / "checkpoint-3"))


def test_a_dry_run_changes_nothing(train, alarm, tmp_path, reported):
    """A dry run trains to the end, and the run's record contains the actions that it would have taken."""
    alarm(1)
    assert train("stop", dry_run=True, max_steps=3).state.global_step == 3
    assert not (tmp_path / STOP_FILE).exists()
    assert [(step, report.action, report.outcome) for step, report in reported()] == [(2, "stop", "dry_run")]


def test_a_stop_that_cannot_write_its_file_stops_all_the_same(train, alarm, tmp_path, swallowed):
    """Training ends although the stop file cannot be written, because other ranks end at the same step."""
    (tmp_path / STOP_FILE).mkdir()
    alarm(1)
    assert train("stop", max_steps=20).state.global_step == 2
    assert [type(error) for error in swallowed] == [IsADirectoryError]
    swallowed.clear()


def test_what_cannot_be_done_is_recorded_as_refused(train, alarm, reported):
    """`enable_llds` is recorded as refused on a plain GRPOTrainer, which has no LLDS."""
    alarm(1)
    train("enable_llds")
    ((_, report),) = reported()
    assert (report.outcome, report.detail) == ("refused", "the trainer is no LLDSGRPOTrainer")


class LayerWise(GRPOTrainer):
    """Says that each weight is updated as soon as its gradient is known."""

    def create_optimizer(self, *args, **kwargs):
        """Create another optimiser, whose package need not be installed."""
        optimizer = super().create_optimizer(*args, **kwargs)
        self.args.optim = "galore_adamw_layerwise"
        return optimizer


def test_an_update_that_the_backward_pass_makes_is_not_reported_as_skipped(train, alarm, reported):
    """When the callback is asked, the weights have changed already."""
    alarm(1)
    train("skip_update", kind=LayerWise)
    ((_, report),) = reported()
    assert report.outcome == "refused"
    assert "the backward pass makes it" in report.detail


def test_llds_is_not_turned_on_where_it_would_do_nothing(train, alarm, reported):
    """With one update per rollout `enable_llds` is refused with the trainer's own reason, and λ stays 0."""
    alarm(1)
    trainer = train("enable_llds", kind=LLDSGRPOTrainer, config_of=LLDSConfig, llds_coef=0.0)
    ((_, report),) = reported()
    assert (report.outcome, report.detail) == ("refused", trainer.why_inert)
    assert "one update a rollout" in report.detail
    assert trainer.llds_coef == 0


def test_a_rollback_is_refused_before_training():
    """A rule with `rollback` raises an error before training, which names the alternative."""
    with pytest.raises(ConfigurationError, match="resume from there"):
        VitalsCallback(policy=ActionPolicy({"critical": "rollback"}))


def test_a_policy_beside_a_monitor_is_refused_before_training(connect):
    """A policy beside a monitor is refused, because the monitor would not pass alerts to it."""
    with pytest.raises(ConfigurationError, match=r"connect\(actions=policy\)"):
        VitalsCallback(connect(), policy=ActionPolicy({"critical": "stop"}))


def test_checkpoint_saves_one(train, alarm, tmp_path):
    """An alert leads to one checkpoint, and not to one at every step."""
    alarm(1)
    train("checkpoint", max_steps=4)
    assert [folder.name for folder in tmp_path.glob("checkpoint-*")] == ["checkpoint-2"]


def test_a_checkpoint_is_refused_where_it_would_delete_the_one_from_before_the_alert(train, alarm, reported):
    """The Trainer keeps one checkpoint, and the one of step 2 is the only healthy one."""
    alarm(3)
    train("checkpoint", max_steps=5, save_strategy="steps", save_steps=2, save_total_limit=1)
    ((step, report),) = reported()
    assert (step, report.outcome) == (4, "refused")
    assert "save_total_limit=1 would delete checkpoint-2" in report.detail


def test_skip_update_leaves_the_weights_as_they_are(train, alarm, tmp_path):
    """The third of three updates is skipped: the weights are those of two updates, at the learning rates of three."""
    alarm(1)
    skipped = train("skip_update", max_steps=3, lr_scheduler_type="constant")
    two = tiny_trl.trainer(tmp_path, max_steps=2, lr_scheduler_type="constant")
    two.train()
    assert tiny_trl.weights(skipped) == tiny_trl.weights(two)


def test_enable_llds_turns_the_regulariser_on(train, alarm, steps):
    """λ changes from 0 to its default at the step after the alert was acted on."""
    alarm(1)
    options = {"kind": LLDSGRPOTrainer, "config_of": LLDSConfig, "num_iterations": 2, "llds_coef": 0.0}
    trainer = train("enable_llds", **options)
    assert trainer.llds_coef == 0.1
    assert [step for step, signals in steps().items() if "loss/llds" in signals] == [3, 4]


def test_a_loop_receives_the_action(alarm, connect):
    """The watch has the decision after the step that follows the alert."""
    alarm(1)
    policy = ActionPolicy({"critical": "stop"}, dry_run=False)
    monitor = connect(actions=policy)
    weight = torch.nn.Parameter(torch.tensor(1.0))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    taken = 0
    with LoopWatch(optimizer, monitor) as watch:
        while not any(decision.action == "stop" for decision in watch.decisions):
            weight.grad = torch.tensor(1.0)
            optimizer.step()
            taken += 1
            assert monitor.flush(PATIENCE_SECONDS)
    assert taken == 2
