"""Tells TRL's own methods from those of subclasses, which may do something else under the same settings."""

from typing import Any

__all__ = ["is_known_code"]


def is_known_code(method: Any) -> bool:
    """Whether a method is of one of TRL's main trainers, or of LLDSGRPOTrainer, which only adds to theirs.

    Trainers in trl.experimental derive from them, and replace rows of a batch, or the loss.
    """
    module = str(getattr(method, "__module__", ""))
    return module.startswith("trl.trainer.") or module == "trainer_hooks.losses.trl"
