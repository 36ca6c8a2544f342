"""The GRPO objective over responses with tool feedback (eq. 1).

Feedback tokens are part of the context that produced the log-probabilities. The mask removes them from the ratio, the
loss and the normaliser.
"""

import math

import torch
from torch import Tensor

from trainer_hooks.losses.token_arrays import require_shapes, upcast

__all__ = ["clipped_surrogate", "group_advantages", "grpo_loss"]


def group_advantages(rewards: Tensor, group_ids: Tensor, *, unbiased: bool = False) -> Tensor:
    """Standardise rewards within each prompt's group of responses (eq. 1).

    A_i = (r_i − mean_group r) / std_group r, with the population standard deviation. A group whose rewards are all
    equal, and so a group of one, gets exact zeros: it carries no signal. A reward that is not finite makes the
    advantages of its whole group NaN.

    Args:
        rewards: One reward a response, shape ``(B,)``.
        group_ids: Responses to the same prompt share a number, shape ``(B,)``, integer.
        unbiased: Whether to divide by the unbiased standard deviation instead, as the authors' release does; advantages
            are then √((n − 1)/n) times as large in a group of n.

    Returns:
        Advantages, shape ``(B,)``, dimensionless; float32 from whole numbers and from half precision.

    Raises:
        ValueError: If the shapes differ.
    """
    if rewards.ndim != 1 or rewards.shape != group_ids.shape:
        raise ValueError(
            f"rewards and group_ids must both have shape (B,), got {tuple(rewards.shape)} and {tuple(group_ids.shape)}"
        )
    rewards = upcast(rewards)
    advantages = torch.zeros_like(rewards)
    for group in torch.unique(group_ids):
        members = group_ids == group
        inside = rewards[members]
        # Rounding of the mean would turn equal rewards into advantages of ±1.
        if not (inside == inside[0]).all():
            advantages[members] = (inside - inside.mean()) / inside.std(correction=int(unbiased))
    return advantages


def grpo_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    mask: Tensor,
    advantages: Tensor,
    *,
    clip_low: Tensor | float = 0.2,
    clip_high: Tensor | float = 0.2,
    normaliser: Tensor | float | None = None,
    token_scales: Tensor | None = None,
) -> Tensor:
    """Compute −J of tool-integrated GRPO (eq. 1), to be minimised.

    J = (1/N) Σ_i Σ_t Σ_k min(γ A_i, clip(γ, 1−ε, 1+ε) A_i),  γ = π_θ(y_{i,t,k}|·) / π_old(y_{i,t,k}|·),
    with N the number of action tokens in the batch.

    Where A < 0 the minimum leaves γ unbounded from above: a token that has become more likely under a wrong response
    is pushed down with a force that grows with γ.

    Args:
        logprobs: ln π_θ of the sampled tokens, shape ``(B, T)``, nats.
        old_logprobs: ln π_old of the same tokens, shape ``(B, T)``, nats; no gradient flows into it.
        mask: True on action tokens, shape ``(B, T)``, bool.
        advantages: A_i, shape ``(B,)``; or a token's own, shape ``(B, T)``, such as those of PPO.
        clip_low: ε below one, in [0, 1] (from 1 on nothing is clipped there); or a token's own, shape ``(B, T)``, such
            as those of `acpo_clip`.
        clip_high: ε above one, at least 0; likewise.
        normaliser: N, to share one over minibatches or ranks; default: the action tokens of this mask.
        token_scales: Factors of the advantage at each token, shape ``(B, T)``, such as those of `nthr_scales`.

    Returns:
        The loss, a scalar; 0 where there is no action token.

    Raises:
        ValueError: If shapes do not belong together.
    """
    require_shapes(logprobs, advantages, by_token=True, old_logprobs=old_logprobs, mask=mask, token_scales=token_scales)
    log_ratio = torch.where(mask, upcast(logprobs) - upcast(old_logprobs).detach(), 0.0)
    weight = advantages.to(log_ratio.dtype)
    weight = weight[:, None] if weight.ndim == 1 else weight
    if token_scales is not None:
        weight = weight * token_scales
    surrogate = clipped_surrogate(log_ratio, weight, clip_low, clip_high)
    count = mask.sum().clamp(min=1) if normaliser is None else normaliser
    return -torch.where(mask, surrogate, 0.0).sum() / count


def clipped_surrogate(log_ratio: Tensor, weight: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """Compute min(γ A, clip(γ, 1 − low, 1 + high) A) from ln γ.

    This is min(γ, 1 + high) A where A ≥ 0, and max(γ, 1 − low) A elsewhere.

    Args:
        log_ratio: ln γ, of any shape, nats.
        weight: A, which broadcasts to that shape.
        low: ε below one, at least 0; a number, or one for each ratio.
        high: ε above one, likewise.
    """
    # In logarithms, because a ratio beyond the largest float is infinite, and its slope 0 · ∞ where the clip holds it.
    # Without an advantage the ratio has no weight, and no clip may hold it.
    log_ratio = torch.where((weight == 0) & (log_ratio > 0), 0.0, log_ratio)
    below, above = _log(1 - low, log_ratio), _log(1 + high, log_ratio)
    # Not clamp, whose slope at NaN is 0.
    lowered = torch.where(log_ratio > above, above, log_ratio)
    raised = torch.where(log_ratio < below, below, log_ratio)
    return torch.where(weight >= 0, lowered, raised).exp() * weight


def _log(bound: Tensor | float, like: Tensor) -> Tensor | float:
    """Compute the logarithm of a bound of ratios: −∞ where it holds none."""
    if isinstance(bound, Tensor):
        return bound.to(like).clamp(min=0).log()
    return math.log(bound) if bound > 0 else -math.inf
