"""Each adapter announces its level with its first record. Adapters that are missing here have tests of their own."""

from types import SimpleNamespace

import pytest
import tiny_trl
import torch
from accelerate import Accelerator
from tiny_lightning import Tiny, fit
from tiny_transformers import tiny_trainer
from trl import RLOOTrainer

from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks import transformers, trl, verl
from trainer_hooks.callbacks.accelerate import VitalsTracker
from trainer_hooks.callbacks.lightning import VitalsCallback as LightningCallback
from trainer_hooks.callbacks.torch_loop import LoopWatch
from trainer_hooks.callbacks.verl.wrappers import wrap_legacy_trainer

TOKENS = {"logprobs": [[-1.0, -2.0]], "mask": [[1, 1]], "rewards": [1.0]}


class Silent(Tiny):
    """The same module, but its training step returns no rollouts."""

    def training_step(self, batch, index):
        """Return the loss alone."""
        return super().training_step(batch, index)["loss"]


def train_with_transformers(folder, monitor):
    """Train a plain Trainer."""
    tiny_trainer(folder, [transformers.VitalsCallback(monitor)], max_steps=1).train()


def train_with_trl(folder, monitor, **options):
    """Train with TRL."""
    tiny_trl.trainer(folder, [trl.VitalsCallback(monitor)], max_steps=1, **options).train()


def train_with_rloo(folder, monitor):
    """Train with TRL's RLOOTrainer."""
    train_with_trl(folder, monitor, kind=RLOOTrainer)


def train_with_trl_probed(folder, monitor):
    """Train with TRL, and score the responses again after the update."""
    callback = trl.VitalsCallback(monitor, probe_every=1)
    tiny_trl.trainer(folder, [callback], max_steps=1).train()


def train_with_a_fused_loss(folder, monitor):
    """Train with a TRL trainer whose loss never calls the scorer."""
    train_with_trl(folder, monitor, kind=tiny_trl.Fused)


def train_with_lightning(_, monitor):
    """Train a Lightning module that returns no rollouts."""
    fit([LightningCallback(monitor)], Silent)


def train_with_lightning_and_rollouts(_, monitor):
    """Train a Lightning module that returns rollouts."""
    fit([LightningCallback(monitor)])


def loop(_, monitor, rollouts=None):
    """Take one step of a plain loop without rollouts."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight])
    with LoopWatch(optimizer, monitor) as watch:
        watch.note({"loss/policy": 1.0}, rollouts=rollouts)
        weight.grad = torch.ones(1)
        optimizer.step()


def loop_with_tokens_of_the_rollout(folder, monitor):
    """Take one step of a plain loop with the sampled tokens."""
    loop(folder, monitor, TOKENS)


def loop_with_tokens_of_the_loss(folder, monitor):
    """Take one step of a plain loop with the tokens of the loss."""
    loop(folder, monitor, TOKENS | {"old_logprobs": [[-1.5, -2.0]]})


def log_with_verl(_, monitor, **tokens):
    """Log metrics as verl's driver does."""
    logger = verl.VitalsLogger("project", "run", monitor=monitor)
    if tokens:
        logger.note_rollouts(tokens)
    logger.log(data={"actor/entropy": 0.5}, step=1)
    logger.finish()


def log_with_verl_and_tokens(folder, monitor):
    """Log with the tokens that verl's driver has of the rollout."""
    log_with_verl(folder, monitor, **TOKENS)


def log_with_verl_and_entropies(folder, monitor):
    """Log with the entropies that verl has where it scored the rollout itself."""
    log_with_verl(folder, monitor, **TOKENS, entropies=[[0.5, 0.5]])


def log_with_search_r1(_, monitor):
    """Log as Search-R1's driver does; its mask covers the whole sequence and excludes search results."""
    logger = verl.VitalsLogger("project", "run", monitor=monitor)
    module = SimpleNamespace(compute_data_metrics=lambda *_, **__: {"critic/score/mean": 1.0})
    wrap_legacy_trainer(module)
    tensors = {
        "responses": torch.tensor([[5, 6, 7]]),
        "info_mask": torch.tensor([[1, 1, 1, 0, 1]]),
        "attention_mask": torch.ones(1, 5),
        "old_log_probs": torch.tensor([[-1.0, -50.0, -3.0]]),
        "advantages": torch.ones(1, 3),
        "token_level_scores": torch.tensor([[0.0, 0.0, 1.0]]),
    }
    batch = SimpleNamespace(batch=tensors, non_tensor_batch={"index": ["q"]})
    logger.log(data=module.compute_data_metrics(batch=batch, use_critic=False), step=1)
    logger.finish()


LEVELS = [
    (train_with_transformers, "L1"),
    (train_with_a_fused_loss, "L1"),
    (train_with_trl, "L3"),
    (train_with_rloo, "L3"),
    (train_with_trl_probed, "L4"),
    (train_with_lightning, "L1"),
    (train_with_lightning_and_rollouts, "L2"),
    (loop, "L1"),
    (loop_with_tokens_of_the_rollout, "L2"),
    (loop_with_tokens_of_the_loss, "L3"),
    (log_with_verl, "L1"),
    (log_with_verl_and_tokens, "L2"),
    (log_with_verl_and_entropies, "L3"),
    (log_with_search_r1, "L2"),
]


@pytest.mark.parametrize(("run", "level"), LEVELS, ids=[run.__name__ for run, _ in LEVELS])
def test_the_first_record_announces_the_level(run, level, tmp_path, connect, collector):
    """The batch of the first record has the capability level, so the run page can show it at once."""
    monitor = connect()
    run(tmp_path, monitor)
    assert monitor.flush(PATIENCE_SECONDS)
    assert next(batch for batch in collector.batches if batch.records).capability == level


def test_accelerate_announces_its_level(collector):
    """The level is L1, because only scalars are sent."""
    accelerator = Accelerator(cpu=True, log_with=VitalsTracker("mine", url=collector.url))
    accelerator.init_trackers("project")
    accelerator.log({"loss": 1.0}, step=1)
    accelerator.end_training()
    assert next(batch for batch in collector.batches if batch.records).capability == "L1"


def test_search_results_are_no_action(connect, collector):
    """Search results are left out although Search-R1's `info_mask` covers the prompt too."""
    monitor = connect()
    log_with_search_r1(None, monitor)
    assert collector.records[0].summaries["likelihood/correct"].value() == -2
    assert collector.records[0].summaries["length/mean"].value() == 2
