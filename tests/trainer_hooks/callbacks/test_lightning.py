import lightning.pytorch as pl
import pytest
import torch

from trainer_hooks.callbacks.lightning import VitalsCallback


class Tiny(pl.LightningModule):
    """One layer; its training step gives rollouts, too."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):  # noqa: ARG002 - Lightning's signature
        """Give the loss, a metric and rollouts."""
        loss = self.layer(batch).square().mean() * 100
        self.log("reward/mean", 0.25)
        self.log("accuracy", 0.5)
        return {"loss": loss, "rollouts": {"logprobs": [[-1.0]], "mask": [[True]], "rewards": [0.75]}}

    def configure_optimizers(self):
        """Descend."""
        return torch.optim.SGD(self.parameters(), lr=0.125)


def fit(callbacks=(), module=Tiny, **options):
    """Train four batches, two to a step."""
    pl.seed_everything(1, verbose=False)
    model = module()
    trainer = pl.Trainer(
        max_steps=2,
        accumulate_grad_batches=2,
        gradient_clip_val=0.01,
        accelerator="cpu",
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(model, torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=2))
    return model


def test_each_optimiser_step_arrives_with_its_tokens(connect, collector):
    """The norm is that before clipping; rollouts become signals, and win over a scalar of their name."""
    monitor = connect()
    fit([VitalsCallback(monitor)])
    assert monitor.flush()
    assert [record.step for record in collector.records] == [1, 2]
    record = collector.records[0]
    assert record.scalars["grad/norm"] > 0.01
    assert record.scalars["lr"] == 0.125
    assert record.scalars["lightning/accuracy"] == 0.5
    assert record.summaries["reward/mean"].value() == 0.75


def test_final_weights_are_the_same_to_the_last_bit(connect):
    """Watching changes no weight."""
    assert torch.equal(fit([VitalsCallback(connect())]).layer.weight, fit().layer.weight)


def test_a_training_that_dies_is_stopped_and_not_finished(collector):
    """An exception in the module ends the run as stopped."""

    class Dying(Tiny):
        def training_step(self, batch, index):
            """Die in the third batch."""
            if index == 2:
                raise ZeroDivisionError
            return super().training_step(batch, index)

    with pytest.raises(ZeroDivisionError):
        fit([VitalsCallback(url=collector.url, run="r")], module=Dying)
    assert collector.batches[-1].end == "stopped"
