"""Finds trainers that update weights in the backward pass, before the event that other trainers call before an update.

DeepSpeed updates at the last microbatch of a step: Accelerate calls ``engine.step()`` in ``backward``. LOMO and the
layer-wise forms of GaLore and APOLLO update each weight as soon as its gradient is known, at every microbatch.
"""

from typing import Any

__all__ = ["updates_at_each_microbatch", "updates_in_backward"]


def updates_in_backward(trainer: Any) -> bool:
    """Whether the weights have changed when the backward pass of a step's last microbatch ends."""
    return trainer.is_deepspeed_enabled or updates_at_each_microbatch(trainer)


def updates_at_each_microbatch(trainer: Any) -> bool:
    """Whether the weights have changed when the backward pass of any microbatch ends."""
    given = trainer.args.optim
    name = str(getattr(given, "value", given))
    return name in ("lomo", "adalomo") or name.endswith("_layerwise")
