"""Run one rank of trainings whose forward pass is collective, with and without the watch and paired re-scoring.

In a forward pass FSDP gathers weights, and DistributedDataParallel sends buffers. Argument: a folder.
"""

import hashlib
import json
import os
import random
import sys
from pathlib import Path

import numpy as np
import tiny_trl
import torch
from accelerate import Accelerator
from torch import distributed
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

import trainer_hooks
from tests.trainer_hooks.fsdp import shard_1
from trainer_hooks.callbacks.torch_loop import LoopWatch
from trainer_hooks.callbacks.trl import VitalsCallback

STEPS = 4


def shard_2(module):
    """Shard the model by FSDP2, in place."""
    return fully_shard(module)


def sharded(model, shard=shard_2, dropout=0.1):
    """Shard each layer and the rest of a model that draws random numbers."""
    layers = model.model.layers
    for index in range(len(layers)):
        layers[index].self_attn.attention_dropout = dropout
        if shard is not DistributedDataParallel:
            layers[index] = shard(layers[index])
    return shard(model)


def end_of(model):
    """Return a fingerprint of the whole weights and of this rank's random generators."""
    if isinstance(model, FullyShardedDataParallel):
        with FullyShardedDataParallel.summon_full_params(model):
            weights = [weight.detach().clone().numpy().tobytes() for weight in model.parameters()]
    else:
        whole = [getattr(weight, "full_tensor", lambda weight=weight: weight)() for weight in model.parameters()]
        weights = [weight.detach().numpy().tobytes() for weight in whole]
    states = random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()  # noqa: NPY002 - trainers'
    return hashlib.sha256(b"".join(weights) + repr(states).encode()).hexdigest()


def loop(folder, monitor, shard):
    """Train a plain loop; both ranks score as many responses, but only one rank has correct and fresh ones."""
    torch.manual_seed(distributed.get_rank())
    model = sharded(tiny_trl.model(folder), shard).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def scored(ids):
        table = model(input_ids=ids).logits[:, :-1].log_softmax(-1)
        return table.gather(2, ids[:, 1:, None])[:, :, 0], -(table.exp() * table).sum(-1)

    with LoopWatch(optimizer, monitor, probe_every=2) as watch:
        for step in range(1, STEPS + 1):
            ids = torch.randint(2, len(tiny_trl.WORDS), (4, 8))
            held_out = torch.randint(2, len(tiny_trl.WORDS), (4, 8))
            logprobs, entropies = scored(ids)
            mask = torch.ones(4, 7, dtype=torch.bool)
            rewards = torch.rand(4)
            here = torch.full((4,), distributed.get_rank() == 0)
            if step == 2:  # between forward and backward, and below after both
                watch.score_again(lambda ids=held_out: scored(ids), mask=mask, correct=here, fresh=here)
            optimizer.zero_grad()
            (logprobs.mean() * torch.randn(())).backward()
            if step != 2:
                watch.score_again(lambda ids=held_out: scored(ids), mask=mask, correct=here, fresh=here)
            tokens = {"logprobs": logprobs, "entropies": entropies, "mask": mask, "rewards": rewards}
            watch.note(rollouts=tokens)
            optimizer.step()
    return end_of(model)


def said(prompts, trainer):
    """Return responses that the policy did not generate: generation would need all ranks for each token."""
    responses = torch.randint(3, len(tiny_trl.WORDS), (len(prompts), 6)).tolist()
    ids = [trainer.processing_class(prompt)["input_ids"] for prompt in prompts]
    return {"prompt_ids": ids, "completion_ids": responses, "logprobs": [[-3.6] * 6 for _ in prompts]}


def grpo(folder, callbacks, dropout=0.1):
    """Train TRL with two passes over each rollout."""
    # Accelerate shards on accelerators alone.
    Accelerator.prepare_model = lambda _, model, **__: sharded(model, dropout=dropout)
    trainer = tiny_trl.trainer(
        folder,
        callbacks,
        rollout_func=said,
        model_of=tiny_trl.model,
        num_iterations=2,
        per_device_train_batch_size=2,
        max_steps=STEPS,
    )
    trainer.train()
    return end_of(trainer.model)


def main(folder):
    """Train in each way, once alone and once watched."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    off, connect = trainer_hooks.NullMonitor, trainer_hooks.connect

    def half(run):
        """Connect only rank 0, as if the other rank's node had no address."""
        return connect(run=run) if distributed.get_rank() == 0 else off()

    found = {
        "FSDP1": [loop(folder, off(), shard_1), loop(folder, connect(run="FSDP1"), shard_1)],
        "FSDP2": [loop(folder, monitor, shard_2) for monitor in (off(), half("half FSDP2"), connect(run="FSDP2"))],
        "DDP": [
            loop(folder, monitor, DistributedDataParallel) for monitor in (off(), half("half DDP"), connect(run="DDP"))
        ],
        "TRL": [
            grpo(folder, []),
            grpo(folder, [VitalsCallback(half("half TRL"), probe_every=2)]),
            grpo(folder, [VitalsCallback(run="TRL", probe_every=2)]),
        ],
        "recomputed TRL": [
            grpo(folder, callbacks, dropout=0.0)
            for callbacks in (
                [],
                [VitalsCallback(half("half recomputed"), recompute_every=2)],
                [VitalsCallback(run="recomputed", recompute_every=2)],
            )
        ],
    }
    (folder / f"rank{distributed.get_rank()}.json").write_text(json.dumps(found))
    distributed.barrier()
    # DTensor's caches keep gloo's threads, which may abort a process that ends; see Ranks.leave.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
