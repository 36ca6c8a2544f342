"""Policy objectives and likelihood-displacement regularisers as pure torch functions.

Each function takes token log-probabilities, a mask that is True on action tokens, and advantages. None depends on a
trainer, a model or a monitor. Where no other source is named, equation numbers are those of arXiv 2512.04220, "On GRPO
Collapse in Search-R1: The Lazy Likelihood-Displacement Death Spiral".
"""

from trainer_hooks.losses.objectives.grpo import group_advantages, grpo_loss
from trainer_hooks.losses.objectives.gspo import gspo_loss, sequence_log_ratio
from trainer_hooks.losses.objectives.ppo import generalised_advantages, value_loss
from trainer_hooks.losses.regularisers.acpo import acpo_clip
from trainer_hooks.losses.regularisers.kl_cov import kl_cov_penalty, token_covariances
from trainer_hooks.losses.regularisers.likelihood import likelihood_loss
from trainer_hooks.losses.regularisers.llds import (
    LLDS_PRESETS,
    Gate,
    LLDSSettings,
    Normaliser,
    adaptive_answer_weight,
    lld_loss,
    llds_loss,
    llds_ma_loss,
)
from trainer_hooks.losses.regularisers.nthr import gwhes, nthr_scales
from trainer_hooks.losses.regularisers.stare import stare_scales

__all__ = [
    "LLDS_PRESETS",
    "Gate",
    "LLDSSettings",
    "Normaliser",
    "acpo_clip",
    "adaptive_answer_weight",
    "generalised_advantages",
    "group_advantages",
    "grpo_loss",
    "gspo_loss",
    "gwhes",
    "kl_cov_penalty",
    "likelihood_loss",
    "lld_loss",
    "llds_loss",
    "llds_ma_loss",
    "nthr_scales",
    "sequence_log_ratio",
    "stare_scales",
    "token_covariances",
    "value_loss",
]
