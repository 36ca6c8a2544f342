"""GSPO: the clipped objective with one likelihood ratio per response (arXiv 2507.18071)."""

import torch
from torch import Tensor

from trainer_hooks.losses.objectives.grpo import clipped_surrogate
from trainer_hooks.losses.token_arrays import require_shapes, upcast

__all__ = ["gspo_loss", "sequence_log_ratio"]


def sequence_log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """Compute ln s_i = (1/|y_i|) Σ_k (ln π_θ(y_k) − ln π_old(y_k)) over a response's action tokens (eq. 7 there).

    Args:
        logprobs: ln π_θ of the sampled tokens, shape ``(B, T)``, nats.
        old_logprobs: ln π_old of the same tokens, shape ``(B, T)``, nats; no gradient flows into it.
        mask: True on action tokens, shape ``(B, T)``, bool.

    Returns:
        ln s, shape ``(B,)``, nats a token; 0 for a response without action tokens.
    """
    log_ratio = torch.where(mask, upcast(logprobs) - upcast(old_logprobs).detach(), 0.0)
    return log_ratio.sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def gspo_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    mask: Tensor,
    advantages: Tensor,
    *,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
) -> Tensor:
    """Compute −J of GSPO (eq. 5 there), to be minimised.

    J = (1/B) Σ_i min(s_i A_i, clip(s_i, 1−ε_low, 1+ε_high) A_i): responses weigh alike, however long they are.

    Args:
        logprobs: ln π_θ of the sampled tokens, shape ``(B, T)``, nats.
        old_logprobs: ln π_old of the same tokens, shape ``(B, T)``, nats.
        mask: True on action tokens, shape ``(B, T)``, bool.
        advantages: A_i, shape ``(B,)``.
        clip_low: ε_low; s is a mean over tokens, so it is far smaller than a token's ε.
        clip_high: ε_high.

    Returns:
        The loss, a scalar; responses without action tokens are left out of sum and count.

    Raises:
        ValueError: If shapes do not belong together.
    """
    require_shapes(logprobs, advantages, old_logprobs=old_logprobs, mask=mask)
    log_ratio = sequence_log_ratio(logprobs, old_logprobs, mask)
    surrogate = clipped_surrogate(log_ratio, advantages.to(log_ratio.dtype), clip_low, clip_high)
    has_tokens = mask.any(dim=1)
    return -torch.where(has_tokens, surrogate, 0.0).sum() / has_tokens.sum().clamp(min=1)
