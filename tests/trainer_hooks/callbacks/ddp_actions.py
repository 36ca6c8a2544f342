"""Run one rank of trainings that act on alerts: plain loops and TRL. Arguments: a folder, and names of scenarios."""

import hashlib
import json
import sys
from pathlib import Path

import tiny_trl
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from transformers import TrainerCallback

import trainer_hooks
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.callbacks.torch_loop import LoopWatch
from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.losses.trl import LLDSConfig, LLDSGRPOTrainer
from trainer_hooks.ranks import agreement
from trainer_hooks.reference.distributed import SINGLE_PROCESS

STEPS = 12


def loop(story):
    """Train until a stop is due; return the step after which it was due, and the weights."""
    policy = ActionPolicy({"critical": "stop"}, dry_run=False)
    monitor = trainer_hooks.connect(run=story, actions=policy)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    stopped_after = None
    with LoopWatch(optimizer, monitor) as watch:
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            model(torch.randn(2, 4)).square().mean().backward()
            optimizer.step()
            if watch.decisions:
                stopped_after = step
                break
            assert monitor.flush(60)
    weights = b"".join(weight.detach().numpy().tobytes() for weight in model.parameters())
    return {"stopped_after": stopped_after, "weights": hashlib.sha256(weights).hexdigest()}


class Flush(TrainerCallback):
    """A callback that waits for the answer after each step, so that alerts arrive at known steps."""

    def __init__(self, monitor):
        self.monitor = monitor

    def on_step_end(self, args, state, control, **kwargs):  # noqa: ARG002 - the event's signature
        """Wait for the collector's answer."""
        assert self.monitor.flush(60)


def grpo(story):
    """Train TRL with a rule for every action; return its last step, λ, the saved checkpoints and the weights."""
    rules = {
        "plateau": "checkpoint",
        "ratio_tail": "skip_update",
        "likelihood_drift": "enable_llds",
        "run_collapsed": "stop",
    }
    policy = ActionPolicy(rules, dry_run=False)
    monitor = trainer_hooks.connect(run=story, actions=policy)
    folder = Path(sys.argv[1]) / story
    trainer = tiny_trl.trainer(
        folder,
        [VitalsCallback(monitor), Flush(monitor)],
        kind=LLDSGRPOTrainer,
        config_of=LLDSConfig,
        llds_coef=0.0,
        num_iterations=2,
        per_device_train_batch_size=2,
        max_steps=STEPS,
    )
    trainer.train()
    monitor.close()
    saved = sorted(path.name for path in folder.glob("checkpoint-*"))
    weights = hashlib.sha256(tiny_trl.weights(trainer)).hexdigest()
    return {"ended": trainer.state.global_step, "llds": trainer.llds_coef, "saved": saved, "weights": weights}


def main(folder, stories):
    """Run the scenarios one after the other."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    done = {}
    for story in stories:
        # A rank that receives no alert need not be waited for.
        agreement.PATIENCE_SECONDS = 0.0 if story.startswith("deaf") else 60.0
        done[story] = grpo(story) if story.endswith("TRL") else loop(story)
    (folder / f"rank{distributed.get_rank()}.json").write_text(json.dumps(done))
    distributed.barrier()
    SINGLE_PROCESS.leave()


main(Path(sys.argv[1]), sys.argv[2:])
