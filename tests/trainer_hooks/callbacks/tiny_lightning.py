"""A Lightning module with one layer, and its training."""

import lightning.pytorch as pl
import torch


class Tiny(pl.LightningModule):
    """A module with one layer, whose training step also returns rollouts."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):  # noqa: ARG002 - Lightning's signature
        """Return the loss, a metric and rollouts."""
        loss = self.layer(batch).square().mean() * 100
        self.log("reward/mean", 0.25)
        self.log("accuracy", 0.5)
        return {"loss": loss, "rollouts": {"logprobs": [[-1.0]], "mask": [[True]], "rewards": [0.75]}}

    def configure_optimizers(self):
        """Create the optimiser."""
        return torch.optim.SGD(self.parameters(), lr=0.125)


def fit(callbacks=(), module=Tiny, batches=4, validation=None, **options):
    """Train; a step has two batches unless the options say otherwise."""
    torch.manual_seed(1)  # seed_everything would leave its seed to every test after this one
    model = module()
    defaults = {"max_epochs": 1, "accumulate_grad_batches": 2, "gradient_clip_val": 0.01}
    trainer = pl.Trainer(
        accelerator="cpu",
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **(defaults | options),
    )
    loader = torch.utils.data.DataLoader
    trainer.fit(model, loader(torch.randn(2 * batches, 4), batch_size=2), validation)
    return model
