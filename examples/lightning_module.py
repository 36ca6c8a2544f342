"""A Lightning module, watched: the callback is the only line that is not Lightning's."""

import lightning.pytorch as pl
import torch

from trainer_hooks.callbacks.lightning import VitalsCallback


class Regression(pl.LightningModule):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        return (self.layer(batch) - 1).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Use plain gradient descent."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = pl.Trainer(
    max_steps=10, accelerator="cpu", logger=False, enable_checkpointing=False, callbacks=[VitalsCallback()]
)
trainer.fit(Regression(), torch.utils.data.DataLoader(torch.randn(80, 4), batch_size=8))
