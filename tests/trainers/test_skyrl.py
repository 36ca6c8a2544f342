import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("skyrl", reason="SkyRL has an environment of its own: make test-trainers")

from skyrl.backends.skyrl_train.training_batch import TrainingInputBatch, pad_training_input_batch
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils.callbacks import CallbackHandler, TrainingCallback, TrainingControl

from trainer_hooks.callbacks.skyrl import VitalsCallback


@pytest.fixture
def trainer():
    """SkyRL's own trainer, without the models, data and processes that its constructor asks for."""
    trainer = object.__new__(RayPPOTrainer)
    trainer.cfg = SkyRLTrainConfig()
    trainer.cfg.trainer.run_name = "search"
    trainer.all_metrics, trainer.all_timings = {}, {}
    trainer.global_step, trainer._current_epoch, trainer.total_training_steps = 5, 0, 10
    trainer._callback_handler, trainer._training_control = CallbackHandler(), TrainingControl()
    trainer.train_dataloader = [None]
    trainer.dispatch = SimpleNamespace(empty_cache=lambda: None)
    trainer.critic_model = None
    return trainer


@pytest.fixture
def batch():
    """Four responses of at most three tokens to two prompts, and two rows that fill the batch up."""
    torch.manual_seed(0)
    mask = torch.tensor([[1, 1, 1], [0, 1, 1], [1, 0, 1], [0, 0, 1]])
    found = TrainingInputBatch(
        {
            "sequences": torch.arange(5).repeat(4, 1),
            "attention_mask": torch.ones(4, 5, dtype=torch.long),
            "response_mask": torch.tensor([[1, 1, 1], [0, 1, 1], [1, 1, 1], [0, 0, 1]]),
            "loss_mask": mask,
            "rewards": torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]),
            "values": None,
            "action_log_probs": -torch.rand(4, 3),
            "rollout_logprobs": None,
            "base_action_log_probs": None,
        }
    )
    found.metadata = {"uids": ["a", "a", "b", "b"], "avg_response_length": 2.0}
    return found


def train_a_step(trainer, batch):
    """Do the work of SkyRL's loop from the advantages to the log, by its own methods."""
    batch = trainer.compute_advantages_and_returns(batch)
    batch.pop("rewards")
    batch.metadata.pop("uids")
    workers = {"policy_entropy": 0.5, "grad_norm": 2.0, "loss_metrics/clip_ratio": 0.25}
    trainer._execute_training_step = lambda *_: workers
    trainer._fire("on_step_end", batch=batch, metrics=trainer.train_critic_and_policy(batch))
    trainer._fire("on_log", logs={**trainer.all_metrics, "timing/step": 3.0})


def test_it_is_called_for_every_event_of_skyrls_callbacks():
    """The callback ignores the events that it does not need."""
    for event in (name for name in vars(TrainingCallback) if name.startswith("on_")):
        assert callable(getattr(VitalsCallback(), event))


def test_the_example_adds_the_callback_to_the_trainer_that_skyrl_makes(monkeypatch):
    """SkyRL's entry point and trainer are real; only the parts of a trainer are left out."""
    monkeypatch.setattr(RayPPOTrainer, "_build_train_dataloader_and_compute_training_steps", lambda _: None)
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "skyrl_grpo.py"))
    experiment = object.__new__(example["WatchedExp"])
    names = ("tracker", "tokenizer", "train_dataset", "eval_dataset", "inference_engine_client", "generator")
    made = experiment.get_trainer(cfg=SkyRLTrainConfig(), colocate_pg=None, **dict.fromkeys(names))
    assert isinstance(made, RayPPOTrainer)
    assert [type(held) for held in made._callback_handler.callbacks] == [VitalsCallback]


@pytest.fixture
def watched(trainer, collector, monkeypatch):
    """The same with our callback."""
    monkeypatch.setenv("RLVITALS_URL", collector.url)
    trainer.add_callback(VitalsCallback())
    return trainer


def test_a_step_of_skyrls_own_methods_arrives(watched, batch, collector):
    """Tokens, rewards and prompts that SkyRL has popped by then, without the rows that fill up; metrics by name."""
    scores, mask = batch["action_log_probs"].clone(), batch["loss_mask"].bool()
    watched._fire("on_train_start")
    watched._fire("on_step_start")
    train_a_step(watched, pad_training_input_batch(batch, 2))
    watched._fire("on_train_end")
    (record,) = collector.records
    assert record.step == 5
    carrying = next(batch for batch in collector.batches if batch.records)
    assert (carrying.run, carrying.project, carrying.capability) == ("search", "skyrl", "L2")
    assert collector.batches[-1].end == "finished"
    assert "compute_advantages_and_returns" not in vars(watched)
    assert record.scalars["grad/norm"] == 2.0
    assert record.scalars["entropy/mean"] == 0.5
    assert record.scalars["skyrl/timing/step"] == 3.0
    correct = scores[[0, 2, 3]][mask[[0, 2, 3]]].mean().item()
    assert record.summaries["likelihood/correct"].value() == pytest.approx(correct, rel=1e-5)
    assert record.summaries["reward/mean"].value() == 0.75
    assert record.summaries["reward/zero_std_frac"].value() == 0.5
    assert record.summaries["length/mean"].value() == 2


def test_rewards_and_advantages_are_those_before_skyrl_changes_them_for_its_loss(watched, batch, collector):
    """Its KL penalty and its scaling of advantages are real."""
    watched.reward_kl_controller, watched.cfg.trainer.algorithm.kl_estimator_type = None, "k1"
    batch["base_action_log_probs"] = batch["action_log_probs"] / 2
    watched._fire("on_train_start")
    batch = watched.apply_reward_kl_penalty(batch)
    assert (batch["rewards"] > 0).any(dim=-1).all()  # of incorrect responses too
    batch = watched.compute_advantages_and_returns(batch)
    mean = (batch["advantages"].abs() * batch["loss_mask"]).sum() / batch["loss_mask"].sum()
    batch = watched._normalize_advantages(batch, [(0, 4)])
    watched._fire("on_step_end", batch=batch, metrics={})
    watched._fire("on_log", logs={})
    watched._fire("on_train_end")
    summaries = collector.records[0].summaries
    assert summaries["reward/mean"].value() == 0.75
    assert summaries["reward/zero_std_frac"].value() == 0.5
    assert summaries["advantage/mean_abs"].value() == pytest.approx(mean.item(), rel=1e-5)


@pytest.mark.parametrize(("minibatch", "is_there"), [(1024, False), (512, True)])
def test_with_one_update_a_rollout_the_clipped_share_is_left_out(minibatch, is_there, watched, batch, collector):
    """The share is 0 by construction; with more updates it is SkyRL's."""
    watched.cfg.trainer.train_batch_size, watched.cfg.trainer.policy_mini_batch_size = 1024, minibatch
    watched._fire("on_train_start")
    train_a_step(watched, batch)
    watched._fire("on_train_end")
    assert ("ratio/clip_frac" in collector.records[0].scalars) == is_there
