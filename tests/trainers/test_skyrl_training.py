from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import distributed

pytest.importorskip("skyrl", reason="SkyRL has an environment of its own: make test-trainers")

from skyrl.backends.skyrl_train.distributed.strategy import DistributedStrategy
from skyrl.backends.skyrl_train.training_batch import TrainingInputBatch
from skyrl.backends.skyrl_train.utils.ppo_utils import PolicyLossRegistry
from skyrl.backends.skyrl_train.workers.model_wrapper import HFModelWrapper
from skyrl.backends.skyrl_train.workers.worker import PolicyWorkerBase
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils.callbacks import CallbackHandler, TrainingControl

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from tests.trainer_hooks.callbacks import tiny_trl
from tests.trainers.untouched import fingerprint, seed
from trainer_hooks.callbacks.skyrl import VitalsCallback

STEPS, PROMPTS, SAMPLES, PROMPT, RESPONSE = 3, 4, 4, 3, 6
ROWS = PROMPTS * SAMPLES


class OnCpu(DistributedStrategy):
    """The work of SkyRL's strategies, on one CPU."""

    world_size = 1
    setup_distributed = save_checkpoint = load_checkpoint = save_hf_model = lambda *_, **__: None

    def backward(self, loss, model, optimizer, **_):  # noqa: ARG002 - the strategy's signature
        """Do the work of FSDP's method."""
        loss.backward()

    def optimizer_step(self, optimizer, model, scheduler, name="model", **_):  # noqa: ARG002 - likewise
        """Do the work of FSDP's method."""
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        return norm


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A process group of one, and a CPU in the place of the device that SkyRL asks for."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "cpu")
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "sp"))
    distributed.destroy_process_group()


@pytest.fixture
def train(group, tmp_path):
    """A function that trains by SkyRL's own trainer, worker, model and loss, and gives a fingerprint of the end."""
    tiny_trl.model(tmp_path / "model")

    def train(*callbacks):
        seed()
        config = SkyRLTrainConfig()
        config.trainer.run_name, config.trainer.update_epochs_per_batch = "search", 2
        config.trainer.train_batch_size, config.trainer.policy_mini_batch_size = PROMPTS, PROMPTS // 2
        config.trainer.micro_train_batch_size_per_gpu = config.trainer.micro_forward_batch_size_per_gpu = 4
        config.trainer.algorithm.use_kl_loss, config.generator.n_samples_per_prompt = False, SAMPLES

        worker = object.__new__(PolicyWorkerBase)
        worker.cfg, worker.strategy, worker.device_mesh = config.trainer, OnCpu(), group
        worker.mesh_rank = SimpleNamespace(dp_size=1)
        worker.policy_loss_fn = PolicyLossRegistry.get(config.trainer.algorithm.policy_loss_type)
        worker.model = HFModelWrapper(
            str(tmp_path / "model"), bf16=False, model_config_kwargs={"attention_dropout": 0.1}
        )
        worker.optimizer = torch.optim.AdamW(worker.model.parameters(), lr=1e-2)
        worker.scheduler = torch.optim.lr_scheduler.ConstantLR(worker.optimizer, factor=1.0)

        trainer = object.__new__(RayPPOTrainer)
        trainer.cfg, trainer.ref_model, trainer.critic_model = config, None, None
        trainer.all_metrics, trainer.all_timings = {}, {}
        trainer.global_step = trainer._current_epoch = 0
        trainer.total_training_steps, trainer.train_dataloader = STEPS, [None]
        trainer._callback_handler, trainer._training_control = CallbackHandler(list(callbacks)), TrainingControl()
        trainer.dispatch = SimpleNamespace(
            empty_cache=lambda *_: None,
            forward_from_staged=lambda _, data: worker.forward(data),
            stage_data=lambda _, data, boundaries: [data[first:end] for first, end in boundaries],
            forward_backward_from_staged=lambda _, data: worker.forward_backward(data),
            optim_step=lambda _: worker.optim_step(),
        )
        trainer._fire("on_train_start")
        for trainer.global_step in range(1, STEPS + 1):
            trainer._fire("on_step_start")
            batch = trainer.compute_advantages_and_returns(trainer.fwd_logprobs_values_reward(rollout()))
            batch.pop("rewards")
            batch.metadata.pop("uids")
            trainer._fire("on_step_end", batch=batch, metrics=trainer.train_critic_and_policy(batch))
            trainer._fire("on_log", logs=dict(trainer.all_metrics))
        trainer._fire("on_train_end")
        assert all(weight.isfinite().all() for weight in worker.model.parameters())
        return fingerprint(worker.model.parameters())

    return train


def rollout():
    """Responses that a coin has sampled, padded as SkyRL pads them, and their rewards."""
    mask = (torch.arange(RESPONSE) < torch.randint(2, RESPONSE + 1, (ROWS, 1))).long()
    rewards = torch.zeros(ROWS, RESPONSE)
    rewards[torch.arange(ROWS), mask.sum(dim=1) - 1] = torch.as_tensor(np.random.rand(ROWS) > 0.5).float()  # noqa: NPY002
    found = TrainingInputBatch(
        {
            "sequences": torch.randint(2, len(tiny_trl.WORDS), (ROWS, PROMPT + RESPONSE)),
            "attention_mask": torch.cat([torch.ones(ROWS, PROMPT, dtype=torch.long), mask], dim=1),
            "response_mask": mask,
            "loss_mask": mask,
            "rewards": rewards,
            "rollout_logprobs": None,
        }
    )
    half = ROWS // 2
    found.metadata = {
        "uids": [str(row // SAMPLES) for row in range(ROWS)],
        "response_length": RESPONSE,
        "avg_response_length": 4.0,
        "policy_mini_batch_boundaries": [(0, half), (half, ROWS)],
        "policy_prompt_boundaries": [(row, row + SAMPLES) for row in range(0, ROWS, SAMPLES)],
    }
    return found


def test_weights_and_generators_are_the_same_to_the_bit_whatever_fails(train, collector, every_collector, monkeypatch):
    """Three steps of SkyRL's trainer, worker, model and loss, with our callback and every collector, and without."""
    alone, defaults = train(), trainer_hooks.Monitor.__init__.__kwdefaults__
    for url, spool in every_collector:
        monkeypatch.setitem(defaults, "close_timeout_seconds", PATIENCE_SECONDS if url == collector.url else 2.0)
        monkeypatch.setenv("RLVITALS_URL", url)
        monkeypatch.setenv("RLVITALS_SPOOL_DIR", spool)
        assert train(VitalsCallback()) == alone, url
    assert [record.step for record in collector.records] == [1, 2, 3]
    for record in collector.records:
        assert record.summaries["likelihood/correct"].value() < 0
        assert record.scalars["grad/norm"] > 0
