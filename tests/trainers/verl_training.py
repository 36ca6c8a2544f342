"""A training by verl's own trainer, worker and FSDP2 engine on the CPU; `untouched` describes its arguments.

Whether we are there is up to verl's ``VERL_USE_EXTERNAL_PLUGINS``.
"""

import os
import random
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import numpy as np
import stubs  # noqa: F401 - before anybody imports verl
import torch
import untouched
from omegaconf import OmegaConf

# isort: split
from verl import DataProto
from verl.trainer.ppo import core_algos, ray_trainer
from verl.utils.metric import reduce_metrics
from verl.utils.tracking import Tracking
from verl.workers.config import FSDPActorConfig, FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.config.engine import TrainingWorkerConfig
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss

STEPS, PROMPTS, SAMPLES, PROMPT, RESPONSE = 3, 4, 4, 3, 6


def worker_of(folder: str) -> TrainingWorker:
    """Return verl's worker with a model to train, as its ActorRolloutRefWorker makes it."""
    model = HFModelConfig(
        path=folder,
        load_tokenizer=False,
        use_remove_padding=False,
        override_config={"attn_implementation": "eager", "attention_dropout": 0.1},
        enable_gradient_checkpointing=False,
    )
    engine = FSDPEngineConfig(
        strategy="fsdp2",
        use_dynamic_bsz=False,
        micro_batch_size_per_gpu=4,
        infer_micro_batch_size_per_gpu=8,
        use_torch_compile=False,
        mixed_precision={"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
    )
    worker = TrainingWorker(
        TrainingWorkerConfig(
            model_type="language_model",
            model_config=model,
            engine_config=engine,
            optimizer_config=FSDPOptimizerConfig(lr=1e-2, clip_grad=1.0, total_training_steps=STEPS),
            checkpoint_config=OmegaConf.create({"save_contents": [], "load_contents": []}),
        )
    )
    worker.reset()
    actor = FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=SAMPLES,
        ppo_mini_batch_size=2,
        ppo_micro_batch_size_per_gpu=4,
        use_dynamic_bsz=False,
    )
    worker.set_loss_fn(partial(ppo_loss, config=actor))
    return worker


def trainer_of(worker: TrainingWorker) -> ray_trainer.RayPPOTrainer:
    """Return verl's trainer with one worker instead of the data and processes that its constructor asks for."""
    trainer = object.__new__(ray_trainer.RayPPOTrainer)
    trainer.config = OmegaConf.create(
        {
            "actor_rollout_ref": {
                "actor": {
                    "calculate_entropy": True,
                    "entropy_coeff": 0.0,
                    "ppo_mini_batch_size": 2,
                    "ppo_epochs": 2,
                    "data_loader_seed": 1,
                    "shuffle": True,
                },
                "rollout": {"n": SAMPLES, "temperature": 1.0, "multi_turn": {"enable": False}},
            }
        }
    )
    trainer.actor_rollout_wg = SimpleNamespace(
        compute_log_prob=worker.infer_batch, update_actor=worker.train_mini_batch
    )
    return trainer


def rollout(vocabulary: int) -> DataProto:
    """Return randomly sampled responses, padded on both sides as verl pads them, and their scores."""
    rows = PROMPTS * SAMPLES
    prompts = torch.randint(2, vocabulary, (PROMPTS, PROMPT)).repeat_interleave(SAMPLES, dim=0)
    responses = torch.randint(2, vocabulary, (rows, RESPONSE))
    mask = (torch.arange(RESPONSE) < torch.randint(2, RESPONSE + 1, (rows, 1))).long()
    scores = torch.zeros(rows, RESPONSE)
    right = np.random.rand(rows) > random.random()  # noqa: NPY002, S311 - what trainers draw from
    scores[torch.arange(rows), mask.sum(dim=1) - 1] = torch.as_tensor(right).float()
    attention = torch.cat([torch.ones_like(prompts), mask], dim=1)
    return DataProto.from_dict(
        tensors={
            "prompts": prompts,
            "responses": responses,
            "input_ids": torch.cat([prompts, responses], dim=1),
            "attention_mask": attention,
            "position_ids": (attention.cumsum(dim=1) - 1).clamp(min=0),
            "response_mask": mask,
            "token_level_scores": scores,
            "token_level_rewards": scores,
        },
        non_tensors={"uid": np.repeat(np.arange(PROMPTS).astype(str), SAMPLES).astype(object)},
        meta_info={"temperature": 1.0, "global_token_num": attention.sum(dim=1).tolist()},
    )


def train(folder: str) -> Iterator[torch.Tensor]:
    """Do a few of verl's steps, and give the weights."""
    worker = worker_of(folder)
    trainer = trainer_of(worker)
    tracking = Tracking("search", "qwen", ["rlvitals"] if "rlvitals" in Tracking.supported_backend else [])
    for step in range(1, STEPS + 1):
        batch = rollout(worker.model_config.hf_config.vocab_size)
        batch = batch.union(trainer._compute_old_log_prob(batch)[0])
        batch = ray_trainer.compute_advantage(batch, core_algos.AdvantageEstimator.GRPO, num_repeat=SAMPLES)
        metrics = reduce_metrics(trainer._update_actor(batch).meta_info["metrics"])
        tracking.log(data=metrics | ray_trainer.compute_data_metrics(batch=batch, use_critic=False), step=step)
    tracking.finish()
    return (weight.full_tensor() for weight in worker.engine.module.state_dict().values())


if __name__ == "__main__":
    EngineRegistry.register(model_type="language_model", backend=["fsdp2"], device=["cpu"])(FSDPEngineWithLMHead)
    torch.distributed.init_process_group("gloo")  # verl would ask for one of an accelerator, too
    untouched.run(train)
    torch.distributed.barrier()
    # DTensor's caches keep gloo's threads, which may abort a process that ends; see Ranks.leave.
    os._exit(0)
