import copy
from types import SimpleNamespace

import pytest
import torch

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks.skyrl import VitalsCallback


class Batch(dict):
    """A batch of SkyRL's shape: a mapping of tensors with metadata."""

    metadata = None


class Trainer:
    """The parts of SkyRL's trainer that the callback uses."""

    def __init__(self):
        self.global_step = 3
        settings = {"update_epochs_per_batch": 2, "policy_mini_batch_size": 4, "train_batch_size": 4}
        self.cfg = SimpleNamespace(trainer=SimpleNamespace(project_name="p", run_name="r", **settings))

    def compute_advantages_and_returns(self, data):
        """Remove rewards and prompts from the batch, as SkyRL does."""
        data["advantages"] = data.pop("rewards")
        data.metadata.pop("uids")
        return data

    def apply_reward_kl_penalty(self, data):
        """Subtract a KL estimate of every token, as SkyRL does with `algorithm.use_kl_in_reward`."""
        data["rewards"] = data["rewards"] + torch.tensor([[-0.4, 0.1], [0.2, 0.1], [0.0, 0.0]])
        return data

    def fwd_logprobs_values_reward(self, data):
        """Score the batch, unless there is no memory left."""
        if data.get("action_log_probs") is None:
            raise torch.OutOfMemoryError("no memory for the forward pass")
        return data

    def train_critic_and_policy(self, data):
        """Raise an out-of-memory error."""
        raise torch.OutOfMemoryError(f"no memory for the backward pass of {len(data)} arrays")


@pytest.fixture
def batch():
    """Return a batch of two responses and a third row that pads it."""
    found = Batch(
        rewards=torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 1.0]]),
        action_log_probs=torch.tensor([[-1.0, -3.0], [-4.0, -9.0], [-1.0, -3.0]]),
        rollout_logprobs=None,
        loss_mask=torch.tensor([[1, 1], [1, 0], [0, 0]]),
        sequences=torch.arange(4).repeat(3, 1),
    )
    found.metadata = {"uids": ["a", "a", "pad0"], "pad_size": 1}
    return found


def train_a_step(callback, trainer, batch, logs):
    """Call the trainer's methods and the callback's events in SkyRL's order."""
    callback.on_train_start(trainer)
    callback.on_epoch_start(trainer, None, None)
    trainer.compute_advantages_and_returns(batch)
    callback.on_step_end(trainer, SimpleNamespace(batch=batch, metrics={}), None)
    callback.on_log(trainer, SimpleNamespace(logs=logs), None)
    callback.on_train_end(trainer)


def summaries_of_step(callback, trainer, batch, monitor, collector):
    """End a step and its log, and return the summaries of its record."""
    callback.on_step_end(trainer, SimpleNamespace(batch=batch))
    callback.on_log(trainer, SimpleNamespace(logs={}))
    assert monitor.flush(PATIENCE_SECONDS)
    return collector.records[-1].summaries


def test_a_step_arrives_with_rewards_that_skyrl_has_popped(batch, connect, collector):
    """Rewards are read where advantages are computed, tokens at the end of the step, and metrics at the log."""
    monitor, trainer = connect(), Trainer()
    train_a_step(VitalsCallback(monitor), trainer, batch, {"policy/policy_entropy": 0.5, "trainer/epoch": 1})
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.step == 3
    assert record.scalars == {"entropy/mean": 0.5, "skyrl/trainer/epoch": 1.0}
    assert record.summaries["likelihood/correct"].value() == -2
    assert record.summaries["likelihood/incorrect"].value() == -4
    assert record.summaries["reward/mean"].value() == 0.5
    assert record.summaries["reward/zero_std_frac"].value() == 0
    assert "compute_advantages_and_returns" not in vars(trainer)
    assert next(batch for batch in collector.batches if batch.records).capability == "L2"


@pytest.mark.parametrize("fails", [False, True])
def test_an_evaluation_of_the_checkpoint_that_a_training_resumes_from_is_no_rewind(fails, batch, connect, collector):
    """With `eval_before_train` it is sent with the first step; at its own it would replace what was trained there."""
    monitor, trainer = connect(), Trainer()
    callback = VitalsCallback(monitor)
    callback.on_train_start(trainer)
    callback.on_log(trainer, SimpleNamespace(logs={"eval/all/avg_score": 0.5}))
    trainer.global_step += 1
    if fails:
        with pytest.raises(torch.OutOfMemoryError):
            trainer.train_critic_and_policy(batch)
    else:
        callback.on_step_end(trainer, SimpleNamespace(batch=batch))
        callback.on_log(trainer, SimpleNamespace(logs={}))
    assert monitor.flush(PATIENCE_SECONDS)
    partial = {"hooks/partial_step": 1.0} if fails else {}
    sent = [(record.step, record.scalars) for record in collector.records]
    assert sent == [(4, {"skyrl/eval/all/avg_score": 0.5} | partial)]


def test_an_evaluation_before_the_first_step_of_a_run_is_sent_at_once(connect, collector):
    """It is at step 0, where nothing was trained."""
    monitor, trainer = connect(), Trainer()
    trainer.global_step = 0
    callback = VitalsCallback(monitor)
    callback.on_train_start(trainer)
    callback.on_log(trainer, SimpleNamespace(logs={"eval/all/avg_score": 0.5}))
    assert monitor.flush(PATIENCE_SECONDS)
    assert [(record.step, record.scalars) for record in collector.records] == [(0, {"skyrl/eval/all/avg_score": 0.5})]


def test_rewards_are_those_before_the_kl_penalty(batch, connect, collector):
    """With `algorithm.use_kl_in_reward` an incorrect response could otherwise count as correct."""
    monitor, trainer = connect(), Trainer()
    callback = VitalsCallback(monitor)
    callback.on_train_start(trainer)
    trainer.apply_reward_kl_penalty(batch)
    trainer.compute_advantages_and_returns(batch)
    summaries = summaries_of_step(callback, trainer, batch, monitor, collector)
    assert summaries["reward/mean"].value() == 0.5
    assert (summaries["likelihood/correct"].value(), summaries["likelihood/incorrect"].value()) == (-2, -4)


@pytest.mark.parametrize("in_place", [False, True])
def test_advantages_are_those_before_the_update_scales_them(in_place, batch, connect, collector):
    """SkyRL's update divides them by the tokens of the minibatch, for its loss."""
    monitor, trainer = connect(), Trainer()
    callback = VitalsCallback(monitor)
    callback.on_train_start(trainer)
    batch["rewards"] = torch.tensor([[1.0, 1.0], [-1.0, 0.0], [1.0, 1.0]])
    trainer.compute_advantages_and_returns(batch)
    if in_place:
        batch["advantages"] /= 3
    else:
        batch["advantages"] = batch["advantages"] / 3
    summaries = summaries_of_step(callback, trainer, batch, monitor, collector)
    assert summaries["advantage/mean_abs"].value() == 1


@pytest.mark.parametrize(
    ("loss_and_anchor", "is_sent"),
    [
        (("regular", "rollout"), False),
        (("rollout_is", "old"), True),
        (("cispo", "old"), False),
        (("cispo", "rollout"), True),
    ],
)
def test_with_one_update_only_ratios_to_the_sampler_are_sent(loss_and_anchor, is_sent, batch, connect, collector):
    """Those to the trainer itself are 1 by construction."""
    monitor, trainer = connect(), Trainer()
    trainer.cfg.trainer.update_epochs_per_batch = 1
    loss, anchor = loss_and_anchor
    cispo = SimpleNamespace(cispo_anchor=anchor)
    trainer.cfg.trainer.algorithm = SimpleNamespace(policy_loss_type=loss, cispo=cispo)
    train_a_step(VitalsCallback(monitor), trainer, batch, {"policy/ppo_clip_ratio": 0.25})
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[0].scalars == ({"ratio/clip_frac": 0.25} if is_sent else {})


@pytest.mark.parametrize("setting", ["zero_variance_filter", "apply_overlong_filtering"])
def test_a_mean_over_microbatches_without_tokens_keeps_skyrls_name(setting, batch, connect, collector):
    """With a filter SkyRL counts responses that are left out of the loss as an entropy of 0."""
    monitor, trainer = connect(), Trainer()
    trainer.cfg.trainer.algorithm = trainer.cfg.generator = SimpleNamespace(**{setting: True})
    train_a_step(VitalsCallback(monitor), trainer, batch, {"policy/policy_entropy": 0.5, "policy/policy_lr": 0.1})
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[0].scalars == {"skyrl/policy/policy_entropy": 0.5, "lr": 0.1}


def test_steps_of_a_trajectory_have_the_reward_of_its_last(batch, connect, collector):
    """In step-wise training each row is one step, and only the last row of a trajectory has the reward."""
    batch["loss_mask"][2] = torch.tensor([1, 1])
    batch.metadata = {"uids": ["a", "b", "b"], "is_last_step": [True, False, True]}
    monitor = connect()
    train_a_step(VitalsCallback(monitor), Trainer(), batch, {})
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[0].summaries["reward/mean"].value() == 1
    assert "likelihood/incorrect" not in collector.records[0].summaries


def test_a_monitor_of_the_users_own_stays_open(batch, connect, collector):
    """The callback closes only a monitor that it has connected itself."""
    monitor = connect()
    train_a_step(VitalsCallback(monitor), Trainer(), batch, {})
    assert monitor.flush(PATIENCE_SECONDS)
    assert [batch.end for batch in collector.batches if batch.end] == []


def test_a_callback_watches_a_second_training_too(batch, collector, monkeypatch):
    """The monitor of the first is closed, so another one is connected."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    callback = VitalsCallback()
    for run in ("a", "b"):
        monkeypatch.setenv("RLVITALS_RUN", run)
        train_a_step(callback, Trainer(), copy.deepcopy(batch), {})
    ends = [(sent.run, sent.end) for sent in collector.batches if sent.end]
    assert ends == [("a", "finished"), ("b", "finished")]
    assert len(collector.records) == 2


def test_a_newer_skyrl_trains_on_without_what_it_has_renamed(collector, monkeypatch, caplog):
    """Metrics are sent where the configuration and the advantages' method are missing, and the log names both."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    callback, trainer = VitalsCallback(), SimpleNamespace(global_step=3)
    callback.on_train_start(trainer)
    callback.on_step_end(trainer, SimpleNamespace(batch=Batch()))
    callback.on_log(trainer, SimpleNamespace(logs={"policy/policy_entropy": 0.5}))
    callback.on_train_end(trainer)
    (message,) = caplog.messages
    assert "compute_advantages_and_returns" in message
    assert collector.records[0].scalars == {"entropy/mean": 0.5}


def test_skyrl_may_name_the_batch_in_its_calls(batch, connect, collector):
    """SkyRL's own method receives the arguments unchanged."""
    monitor, trainer = connect(), Trainer()
    callback = VitalsCallback(monitor)
    callback.on_train_start(trainer)
    assert trainer.compute_advantages_and_returns(data=batch) is batch
    summaries = summaries_of_step(callback, trainer, batch, monitor, collector)
    assert summaries["reward/mean"].value() == 0.5
    assert summaries["likelihood/correct"].value() == -2


def test_a_setting_that_cannot_work_is_reported_before_the_first_step(monkeypatch):
    """A wrong setting is the only error that the callback raises."""
    monkeypatch.setenv("RLVITALS_URL", "nowhere")
    with pytest.raises(trainer_hooks.ConfigurationError):
        VitalsCallback().on_train_start(Trainer())


def test_a_step_that_runs_out_of_memory_is_sent_before_it_is_lost(batch, collector, monkeypatch):
    """The step's rewards, tokens and metrics are sent, the run is stopped, and SkyRL's error propagates."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    callback, trainer = VitalsCallback(), Trainer()
    trainer.all_metrics = {"reward/avg_pass_at_2": 0.5}
    callback.on_train_start(trainer)
    trainer.compute_advantages_and_returns(batch)
    with pytest.raises(torch.OutOfMemoryError, match="backward"):
        trainer.train_critic_and_policy(batch)
    (record,) = collector.records
    assert record.step == 3
    assert record.scalars == {"hooks/partial_step": 1.0, "skyrl/reward/avg_pass_at_2": 0.5}
    assert record.summaries["reward/mean"].value() == 0.5
    assert record.summaries["likelihood/correct"].value() == -2
    assert collector.batches[-1].end == "stopped"


def test_a_step_that_fails_before_its_advantages_is_sent_with_its_metrics_alone(connect, collector):
    """The metrics of the rollout are sent, and a monitor of the user's own stays open."""
    monitor, trainer = connect(), Trainer()
    callback = VitalsCallback(monitor)
    trainer.all_metrics = {"reward/avg_raw_reward": 0.25}
    callback.on_train_start(trainer)
    with pytest.raises(torch.OutOfMemoryError, match="forward"):
        trainer.fwd_logprobs_values_reward(Batch())
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.scalars == {"hooks/partial_step": 1.0, "reward/mean": 0.25}
    assert [batch.end for batch in collector.batches if batch.end] == []


def test_the_setting_that_the_gap_to_the_sampler_needs_is_named_once(batch, connect, collector, caplog):
    """Without the sampler's log-probabilities the mismatch is not observed, and the log names the setting."""
    monitor, trainer = connect(), Trainer()
    callback = VitalsCallback(monitor)
    callback.on_train_start(trainer)
    for _ in range(2):
        given = Batch(batch)
        given.metadata = dict(batch.metadata)
        trainer.compute_advantages_and_returns(given)
        summaries = summaries_of_step(callback, trainer, given, monitor, collector)
        assert not [name for name in summaries if name.startswith("mismatch/")]
    (message,) = caplog.messages
    assert "generator.sampling_params.logprobs=0" in message


def test_a_loss_without_old_logprobs_has_the_samplers_and_says_that_there_is_no_mismatch(
    batch, connect, collector, caplog
):
    """The mismatch is absent, not 0, where SkyRL skips the policy's forward pass (`rollout_is` and `dppo`)."""
    monitor, trainer = connect(), Trainer()
    callback = VitalsCallback(monitor)
    batch["rollout_logprobs"], batch["action_log_probs"] = batch["action_log_probs"], None
    callback.on_train_start(trainer)
    trainer.compute_advantages_and_returns(batch)
    summaries = summaries_of_step(callback, trainer, batch, monitor, collector)
    assert (summaries["likelihood/correct"].value(), summaries["likelihood/incorrect"].value()) == (-2, -4)
    assert not [name for name in summaries if name.startswith("mismatch/")]
    (message,) = caplog.messages
    assert "policy_loss_type" in message


def test_the_environment_names_project_and_run_before_the_configuration(collector, monkeypatch):
    """`RLVITALS_PROJECT` and `RLVITALS_RUN` go before the names of SkyRL's trainer."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    monkeypatch.setenv("RLVITALS_PROJECT", "mine")
    monkeypatch.setenv("RLVITALS_RUN", "r")
    trainer, callback = Trainer(), VitalsCallback()
    callback.on_train_start(trainer)
    callback.on_train_end(trainer)
    assert {(batch.project, batch.run) for batch in collector.batches} == {("mine", "r")}
