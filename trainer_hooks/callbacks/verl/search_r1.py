"""Adds LLDS to Search-R1's policy loss; nothing is imported before Search-R1 imports it itself."""

from types import ModuleType
from typing import Any

from trainer_hooks.callbacks.shared.post_import import Function, after_import, wrap

__all__ = ["add_llds"]


def add_llds(**settings: Any) -> None:
    """Add λ L_LLDS to Search-R1's policy loss, now or as soon as its module is imported.

    Args:
        settings: ``coef``, ``gate`` and ``answer_weight`` of `trainer_hooks.losses.search_r1.with_llds`. Without any,
            they are those of the authors' release: λ = 0.2 and the action gate.

    A setting that cannot work is one warning when the module is imported, and the loss stays as it is.
    """

    def hook(module: ModuleType) -> None:
        from trainer_hooks.losses.search_r1 import with_llds  # noqa: PLC0415 - torch is imported by now

        def around(original: Function) -> Function:
            return with_llds(original, **settings)

        wrap(module, "compute_policy_loss", around)

    after_import("verl.trainer.ppo.core_algos", hook)
