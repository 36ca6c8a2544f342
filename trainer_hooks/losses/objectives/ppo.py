"""The parts of PPO beside the clipped objective: advantages from a learned value, and the loss of that value.

The policy term is `grpo_loss` with the advantages of `generalised_advantages`, one per token. States are the contexts
in which the model acts. Tool feedback is skipped, so the state after an action's last token is the state before the
first token of the next action.
"""

import torch
from torch import Tensor

from trainer_hooks.losses.token_arrays import upcast

__all__ = ["generalised_advantages", "value_loss"]


def generalised_advantages(
    rewards: Tensor, values: Tensor, mask: Tensor, *, discount: float = 1.0, gae_lambda: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Compute generalised advantage estimates and returns of action tokens (GAE).

    With a response's action tokens numbered k = 1 … n and its reward R paid at the last,
    δ_k = r_k + γ V(s_{k+1}) − V(s_k),  r_n = R and 0 before,  V(s_{n+1}) = 0;
    Â_k = Σ_{l≥0} (γλ)^l δ_{k+l},  R̂_k = Â_k + V(s_k).
    At γ = λ = 1, Â_k = R − V(s_k): no bias from the value, all variance of the reward.

    Args:
        rewards: R, shape ``(B,)``.
        values: V of the state before each token, shape ``(B, T)``; no gradient flows into it.
        mask: True on action tokens, shape ``(B, T)``, bool.
        discount: γ in [0, 1].
        gae_lambda: λ in [0, 1].

    Returns:
        Advantages Â and returns R̂, each ``(B, T)``; 0 outside the mask.

    Raises:
        ValueError: If shapes do not belong together.

    Reference:
        Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation", eq. 11 and 16
        (arXiv 1506.02438).
    """
    if rewards.shape != values.shape[:1]:
        raise ValueError(f"rewards must have shape ({len(values)},), one a response, got {tuple(rewards.shape)}")
    _require_shape_of(values, mask=mask)
    values = torch.where(mask, upcast(values).detach(), 0.0)
    paid = upcast(rewards).to(values.dtype)
    next_value, next_advantage = torch.zeros_like(paid), torch.zeros_like(paid)
    advantages = torch.zeros_like(values)
    for k in reversed(range(values.shape[1])):
        acts = mask[:, k]
        surprise = paid + discount * next_value - values[:, k]
        next_advantage = torch.where(acts, surprise + discount * gae_lambda * next_advantage, next_advantage)
        next_value = torch.where(acts, values[:, k], next_value)
        paid = torch.where(acts, 0.0, paid)
        advantages[:, k] = torch.where(acts, next_advantage, 0.0)
    return advantages, advantages + values


def value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    mask: Tensor,
    *,
    clip: float = 0.2,
    normaliser: Tensor | float | None = None,
) -> Tensor:
    """Compute the clipped value loss, to be minimised.

    L_V = (1/N) Σ_k ½ max((V_k − R̂_k)², (V_old,k + clip(V_k − V_old,k, −ε, ε) − R̂_k)²), N = action tokens.

    Args:
        values: V of the state before each token, shape ``(B, T)``.
        old_values: The same before the first update on this rollout, shape ``(B, T)``.
        returns: R̂ of `generalised_advantages`, shape ``(B, T)``.
        mask: True on action tokens, shape ``(B, T)``, bool.
        clip: ε, in units of the reward.
        normaliser: N, to share one over minibatches or ranks; default: the action tokens of this mask.

    Returns:
        The loss, a scalar; 0 where there is no action token.

    Raises:
        ValueError: If shapes do not belong together.

    Reference:
        Schulman et al., "Proximal Policy Optimization Algorithms" (arXiv 1707.06347), eq. 9; the clip is that of the
        authors' code, see Engstrom et al. (arXiv 2005.12729), section 3.
    """
    _require_shape_of(values, old_values=old_values, returns=returns, mask=mask)
    # Before the difference: what a critic gives at padding may be NaN, and its gradient would reach every weight.
    values, old_values = torch.where(mask, upcast(values), 0.0), upcast(old_values).detach()
    held = old_values + (values - old_values).clamp(-clip, clip)
    error = torch.maximum((values - returns).square(), (held - returns).square())
    count = mask.sum().clamp(min=1) if normaliser is None else normaliser
    return torch.where(mask, error, 0.0).sum() / (2 * count)


def _require_shape_of(values: Tensor, **others: Tensor) -> None:
    for name, tensor in others.items():
        if tensor.shape != values.shape:
            raise ValueError(f"{name} must have the shape of values {tuple(values.shape)}, got {tuple(tensor.shape)}")
