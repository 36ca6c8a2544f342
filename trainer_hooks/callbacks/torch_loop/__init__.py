"""Watches a plain PyTorch loop: each ``optimizer.step()`` is a step. Needs no framework except torch.

`watch` logs the steps. `decisions` holds the decisions on alerts that the loop carries out itself.
"""

from trainer_hooks.callbacks.torch_loop.watch import LoopWatch

__all__ = ["LoopWatch"]
