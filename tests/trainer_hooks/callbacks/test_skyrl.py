from types import SimpleNamespace

import torch

from trainer_hooks.callbacks.skyrl import VitalsCallback


def test_a_step_arrives_with_rewards_that_skyrl_has_popped(connect, collector):
    """Rewards are caught where advantages are computed, tokens and metrics at the end of the step."""

    class Trainer:
        global_step = 3

        def compute_advantages_and_returns(self, batch):
            """Use the rewards up, as SkyRL does."""
            batch["advantages"] = batch.pop("rewards")

    monitor = connect()
    callback, trainer = VitalsCallback(monitor), Trainer()
    batch = {
        "rewards": torch.tensor([[0.0, 1.0], [0.0, 0.0]]),
        "action_log_probs": torch.tensor([[-1.0, -3.0], [-4.0, -9.0]]),
        "rollout_logprobs": None,
        "loss_mask": torch.tensor([[1, 1], [1, 0]]),
    }
    callback.on_train_start(trainer)
    callback.on_epoch_start(trainer, None, None)
    trainer.compute_advantages_and_returns(batch)
    metrics = {"policy/policy_entropy": 0.5, "trainer/epoch": 1}
    callback.on_step_end(trainer, SimpleNamespace(batch=batch, metrics=metrics), None)
    assert monitor.flush()
    callback.on_train_end(trainer)
    (record,) = collector.records
    assert record.step == 3
    assert record.scalars == {"entropy/mean": 0.5, "skyrl/trainer/epoch": 1.0}
    assert record.summaries["likelihood/correct"].value() == -2
    assert record.summaries["likelihood/incorrect"].value() == -4
    assert "compute_advantages_and_returns" not in vars(trainer)
