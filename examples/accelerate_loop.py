"""A loop with Accelerate, watched: the tracker is the only line that is not Accelerate's."""

import torch
from accelerate import Accelerator

from trainer_hooks.callbacks.accelerate import VitalsTracker

accelerator = Accelerator(cpu=True, log_with=VitalsTracker())
accelerator.init_trackers("example", config={"learning_rate": 0.1})

layer = torch.nn.Linear(4, 1)
layer, optimizer = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=0.1))
for step in range(1, 21):
    optimizer.zero_grad()
    loss = (layer(torch.randn(8, 4)) - 1).square().mean()
    accelerator.backward(loss)
    grad_norm = accelerator.clip_grad_norm_(layer.parameters(), 1.0)
    optimizer.step()
    accelerator.log({"loss": loss, "grad_norm": grad_norm}, step=step)
accelerator.end_training()
