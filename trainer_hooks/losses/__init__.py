"""Policy objectives and likelihood-displacement regularisers as pure torch functions.

Each takes token log-probabilities, a mask that is True on action tokens, and advantages; none knows of a trainer, a
model or a monitor. Equation numbers are those of arXiv 2512.04220, "On GRPO Collapse in Search-R1: The Lazy
Likelihood-Displacement Death Spiral", where no other source is named.

Each name is loaded when it is first used, and torch with it: adapters import `loss_sums` in every process of a trainer,
also in those without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer_hooks.losses.likelihood import likelihood_loss
    from trainer_hooks.losses.llds import (
        LLDS_PRESETS,
        Gate,
        LLDSSettings,
        Normaliser,
        adaptive_answer_weight,
        lld_loss,
        llds_loss,
        llds_ma_loss,
    )
    from trainer_hooks.losses.nthr import gwhes, nthr_scales
    from trainer_hooks.losses.objectives.grpo import group_advantages, grpo_loss
    from trainer_hooks.losses.objectives.gspo import gspo_loss, sequence_log_ratio
    from trainer_hooks.losses.objectives.ppo import generalised_advantages, value_loss

__all__ = [
    "LLDS_PRESETS",
    "Gate",
    "LLDSSettings",
    "Normaliser",
    "adaptive_answer_weight",
    "generalised_advantages",
    "group_advantages",
    "grpo_loss",
    "gspo_loss",
    "gwhes",
    "likelihood_loss",
    "lld_loss",
    "llds_loss",
    "llds_ma_loss",
    "nthr_scales",
    "sequence_log_ratio",
    "value_loss",
]

_MODULES = {
    "LLDS_PRESETS": "llds",
    "Gate": "llds",
    "LLDSSettings": "llds",
    "Normaliser": "llds",
    "adaptive_answer_weight": "llds",
    "generalised_advantages": "objectives.ppo",
    "group_advantages": "objectives.grpo",
    "grpo_loss": "objectives.grpo",
    "gspo_loss": "objectives.gspo",
    "gwhes": "nthr",
    "likelihood_loss": "likelihood",
    "lld_loss": "llds",
    "llds_loss": "llds",
    "llds_ma_loss": "llds",
    "nthr_scales": "nthr",
    "sequence_log_ratio": "objectives.gspo",
    "value_loss": "objectives.ppo",
}

if not TYPE_CHECKING:  # otherwise every misspelt name would pass the type checker

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
