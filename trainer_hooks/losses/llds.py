"""Likelihood-preserving regularisers against lazy likelihood displacement (eq. 4 to 6).

All penalise d_k = ln π_old(y_k) − ln π_θ(y_k) where it is positive, on the responses that the update should not make
less likely: the preserving set, advantage ≥ 0. Responses of advantage 0 belong to it on purpose: they are not
trained, and must not sink. Add to the policy loss with a weight: L = L_GRPO + λ L (eq. 7), λ = 0.1 in the paper.

Note:
    At θ = θ_old every d_k is 0, and so is the gradient, exactly. With one optimiser step for each rollout batch these
    terms therefore do nothing; they act from the second minibatch or epoch on the same rollouts.
"""

from typing import Literal

import torch
from torch import Tensor

from trainer_hooks.losses.tokens import action_index, require_shapes, upcast

__all__ = ["Gate", "lld_loss", "llds_loss", "llds_ma_loss"]

Gate = Literal["response", "action", "none"]


def lld_loss(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
    """Penalise every token of the preserving set that lost likelihood (eq. 4): `llds_loss` without a gate."""
    return llds_loss(logprobs, old_logprobs, mask, advantages, gate="none")


def llds_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    mask: Tensor,
    advantages: Tensor,
    *,
    gate: Gate = "response",
    answer_mask: Tensor | None = None,
    normaliser: Tensor | float | None = None,
) -> Tensor:
    """Penalise lost likelihood where a whole response, or a whole action, lost it (eq. 5; action gate of v2).

    L = (1/N) Σ_{i: A_i ≥ 0} Σ_t g_{i,t} Σ_k max(0, d_{i,t,k}),  N = action tokens of the preserving set,
    with g_{i,t} = 1[Σ_t Σ_k d_{i,t,k} > 0] for ``"response"``, 1[Σ_k d_{i,t,k} > 0] for ``"action"``, 1 for ``"none"``.
    The gates let likelihood move between the tokens of a response, or an action, as long as none is lost in sum.

    Args:
        logprobs: ln π_θ of the sampled tokens, shape ``(B, T)``, nats.
        old_logprobs: ln π_old of the same tokens, shape ``(B, T)``, nats; no gradient flows into it.
        mask: True on action tokens, shape ``(B, T)``, bool; its runs are the actions.
        advantages: A_i, shape ``(B,)``.
        gate: What has to lose likelihood for its tokens to be penalised.
        answer_mask: True on tokens of the final answer, shape ``(B, T)``: left out of the penalty, not of the gate
            and not of N (eq. 6).
        normaliser: N, to share one over minibatches or ranks; default: the preserving set's action tokens here.

    Returns:
        The penalty, a scalar ≥ 0 in nats a token; 0 where the preserving set is empty, and at θ = θ_old.

    Raises:
        ValueError: If shapes do not belong together, or the gate is unknown.
    """
    require_shapes(logprobs, advantages, old_logprobs=old_logprobs, mask=mask, answer_mask=answer_mask)
    kept = mask & (advantages >= 0)[:, None]
    lost = torch.where(kept, upcast(old_logprobs).detach() - upcast(logprobs), 0.0)
    penalised = kept & _open_gate(lost.detach(), mask, gate)
    if answer_mask is not None:
        penalised = penalised & ~answer_mask
    # relu and not clamp: the slope at exactly 0 has to be 0.
    count = kept.sum().clamp(min=1) if normaliser is None else normaliser
    return (lost.relu() * penalised).sum() / count


def llds_ma_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    mask: Tensor,
    advantages: Tensor,
    answer_mask: Tensor,
    *,
    gate: Gate = "response",
) -> Tensor:
    """Compute `llds_loss` without a penalty on answer tokens (LLDS-MA, eq. 6), to encourage more tool use."""
    return llds_loss(logprobs, old_logprobs, mask, advantages, gate=gate, answer_mask=answer_mask)


def _open_gate(lost: Tensor, mask: Tensor, gate: Gate) -> Tensor:
    """Mark the tokens whose response or action lost likelihood in sum; the result broadcasts to ``(B, T)``."""
    if gate == "none":
        return torch.ones_like(mask)
    if gate == "response":
        return lost.sum(dim=1, keepdim=True) > 0
    if gate == "action":
        # One more column than actions can be, for the tokens outside (index −1 wraps to the last).
        columns = action_index(mask) % (mask.shape[1] + 1)
        sums = lost.new_zeros(mask.shape[0], mask.shape[1] + 1).scatter_add_(1, columns, lost)
        return sums.gather(1, columns) > 0
    raise ValueError(f'gate must be "response", "action" or "none", got {gate!r}')
