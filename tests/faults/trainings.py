"""One small training for each way of watching; its final state is compared with that of the same training unwatched.

Addresses come from the environment, as a user's would. On several ranks each is data-parallel.
"""

import hashlib
import os
import random
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import lightning.pytorch as pl
import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from datasets import Dataset
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from transformers import Trainer, TrainingArguments

import trainer_hooks
from tests.fresh_slime import fresh_slime
from tests.trainer_hooks.callbacks import tiny_trl
from trainer_hooks.callbacks import lightning, transformers, trl
from trainer_hooks.callbacks.accelerate import VitalsTracker
from trainer_hooks.callbacks.torch_loop import LoopWatch

STEPS = 4
Fingerprints = dict[str, str]


def end_of(weights: Iterable[torch.Tensor]) -> Fingerprints:
    """Return fingerprints of the weights and of every random generator."""
    parts = {
        "weights": b"".join(weight.detach().numpy().tobytes() for weight in weights),
        "random": repr(random.getstate()).encode(),
        "numpy": str(np.random.get_state()).encode(),  # noqa: NPY002 - trainers'
        "torch": repr(torch.get_rng_state().tolist()).encode(),
    }
    return {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}


def network() -> torch.nn.Module:
    """Return a small network that draws random numbers, of the same weights every time."""
    set_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4))


def step_of(model: torch.nn.Module) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return the loss of a policy on random contexts, and its rollouts."""
    logprobs = model(torch.randn(6, 5, 8)).log_softmax(-1)[..., 0]
    rewards = torch.as_tensor(np.random.rand(6) + random.random())  # noqa: NPY002, S311 - what trainers draw from
    rollouts = {"logprobs": logprobs, "mask": torch.ones(6, 5, dtype=torch.bool), "rewards": rewards}
    return -(logprobs.mean(-1) * rewards).mean(), rollouts | {"old_logprobs": logprobs - 0.1}


def log_step(folder: Path, *, is_watched: bool) -> Fingerprints:  # noqa: ARG001 - trainings are called alike
    """Train a plain loop that calls `Monitor.log_step`."""
    model = _parallel(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    with trainer_hooks.connect(run="r") if is_watched else trainer_hooks.NullMonitor() as monitor:
        for step in range(STEPS):
            loss, rollouts = step_of(model)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.log_step(step, {"loss/policy": loss}, rollouts=rollouts)
    return end_of(model.parameters())


def torch_loop(folder: Path, *, is_watched: bool) -> Fingerprints:  # noqa: ARG001 - trainings are called alike
    """Train a plain loop whose optimiser is watched."""
    model = _parallel(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    monitor = trainer_hooks.connect(run="r") if is_watched else trainer_hooks.NullMonitor()
    with LoopWatch(optimizer, monitor) as watch:
        for _ in range(STEPS):
            loss, rollouts = step_of(model)
            optimizer.zero_grad()
            loss.backward()
            watch.note({"loss/policy": loss}, rollouts=rollouts)
            optimizer.step()
    return end_of(model.parameters())


def accelerate(folder: Path, *, is_watched: bool) -> Fingerprints:  # noqa: ARG001 - trainings are called alike
    """Train under Accelerate with our tracker."""
    accelerator = Accelerator(cpu=True, log_with=VitalsTracker("r") if is_watched else None)
    accelerator.init_trackers("r")
    model = network()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.1))
    for step in range(STEPS):
        loss, _ = step_of(model)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        accelerator.log({"loss": loss}, step=step)
    for tracker in accelerator.trackers:
        tracker.finish()  # as end_training does, which would take the process group from the next training, too
    return end_of(model.parameters())


def plain_trainer(folder: Path, *, is_watched: bool) -> Fingerprints:
    """Train a transformers Trainer."""
    tiny = tiny_trl.model(folder / "model")
    rows = [{"input_ids": [3, 4, 5, index % 8 + 6], "labels": [3, 4, 5, index % 8 + 6]} for index in range(32)]
    settings = {"max_steps": STEPS, "use_cpu": True, "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1}
    args = TrainingArguments(output_dir=str(folder), per_device_train_batch_size=4, report_to="none", **settings)
    set_seed(3)
    callbacks = [transformers.VitalsCallback(run="r")] if is_watched else []
    trainer = Trainer(model=tiny, args=args, train_dataset=Dataset.from_list(rows), callbacks=callbacks)
    trainer.train()
    return end_of(trainer.model.parameters())


def grpo(folder: Path, *, is_watched: bool) -> Fingerprints:
    """Train TRL's GRPOTrainer, two passes over a rollout, with paired re-scoring."""
    callbacks = [trl.VitalsCallback(run="r", probe_every=2)] if is_watched else []
    options = {"per_device_train_batch_size": 4 // _world_size(), "num_iterations": 2, "max_steps": STEPS}
    trainer = tiny_trl.trainer(folder, callbacks, **options)
    trainer.train()
    return end_of(trainer.model.parameters())


class Module(pl.LightningModule):
    """The network as a LightningModule."""

    def __init__(self) -> None:
        super().__init__()
        self.model = network()

    def training_step(self, batch, index):  # noqa: ARG002 - Lightning's signature
        """Return the loss and the rollouts."""
        loss, rollouts = step_of(self.model)
        return {"loss": loss, "rollouts": rollouts}

    def configure_optimizers(self):
        """Create the optimiser."""
        return torch.optim.AdamW(self.parameters(), lr=0.1)


def lightning_trainer(folder: Path, *, is_watched: bool) -> Fingerprints:
    """Train under Lightning."""
    module = Module()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        devices=_world_size(),
        strategy="ddp" if _world_size() > 1 else "auto",
        callbacks=[lightning.VitalsCallback(run="r")] if is_watched else [],
        default_root_dir=folder,
        enable_model_summary=False,
        **quiet,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's advice on workers and on torch
        trainer.fit(module, torch.utils.data.DataLoader(torch.zeros(2 * STEPS * _world_size(), 1), batch_size=2))
    return end_of(module.parameters())


def slime_rollouts(folder: Path, *, is_watched: bool) -> Fingerprints:  # noqa: ARG001 - trainings are called alike
    """Train a loop that calls our hook with a rollout as slime does."""
    model = _parallel(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    with fresh_slime() as (slime, _):  # the next training is another process's in life
        for rollout_id in range(STEPS):
            loss, rollouts = step_of(model)
            logprobs = list(rollouts["logprobs"].detach())
            data = {"log_probs": logprobs, "rollout_log_probs": [(row - 0.1).tolist() for row in logprobs]}
            data |= {"loss_masks": [[1] * len(row) for row in logprobs], "rewards": rollouts["rewards"].tolist()}
            if is_watched:
                slime.watch(SimpleNamespace(lr=0.1, rewards_normalization=False), rollout_id, data)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return end_of(model.parameters())


TRAININGS: dict[str, Callable[..., Fingerprints]] = {
    "log_step": log_step,
    "LoopWatch": torch_loop,
    "Accelerate": accelerate,
    "transformers": plain_trainer,
    "TRL": grpo,
    "slime": slime_rollouts,
    "Lightning": lightning_trainer,  # the last, because it removes WORLD_SIZE from the environment at its end
}


def be_brief(monkeypatch_setitem: Callable[..., object]) -> None:
    """Let the wait at the end of a run be short: how long it may be is tested elsewhere."""
    monkeypatch_setitem(trainer_hooks.Monitor.__init__.__kwdefaults__, "close_timeout_seconds", 0.2)


def _world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _parallel(model: torch.nn.Module) -> torch.nn.Module:
    return DistributedDataParallel(model) if distributed.is_initialized() else model
