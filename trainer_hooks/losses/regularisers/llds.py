"""Likelihood-preserving regularisers against lazy likelihood displacement (eq. 4 to 6).

All penalise d_k = ln π_old(y_k) − ln π_θ(y_k) where it is positive, on the responses that the update should not make
less likely: the preserving set, advantage ≥ 0. Responses of advantage 0 belong to this set on purpose: the policy loss
does not train them, and they must not become less likely. The penalty is added to the policy loss with a weight:
L = L_GRPO + λ L (eq. 7), λ = 0.1 in the paper.

The paper and the code that its authors released differ in the normaliser N. Eq. 4 to 6 as printed divide by the action
tokens of the preserving set (``"preserved"``); the release divides by all action tokens (``"all"``), uses the gate by
action, and λ = 0.2 in its script. `LLDS_PRESETS` holds both.

Note:
    At θ = θ_old every d_k is 0, and so is the gradient, exactly. With one optimiser step for each rollout batch these
    terms therefore do nothing; they act from the second minibatch or epoch on the same rollouts.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from trainer_hooks.losses.token_arrays import action_index, require_shapes, upcast

__all__ = [
    "LLDS_PRESETS",
    "Gate",
    "LLDSSettings",
    "Normaliser",
    "adaptive_answer_weight",
    "lld_loss",
    "llds_loss",
    "llds_ma_loss",
    "require_settings",
]

Gate = Literal["response", "action", "none"]
"""The part whose likelihood must have fallen in sum for its tokens to be penalised; ``"none"`` is each token alone."""

Normaliser = Literal["preserved", "all"]
"""N: the action tokens of the preserving set (eq. 4 to 6 as printed), or all action tokens (the authors' release)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LLDSSettings:
    """A variant of LLDS.

    Attributes:
        coef: λ of eq. 7.
        gate: The part whose likelihood must have fallen for its tokens to be penalised.
        normaliser: The divisor of the penalty.
    """

    coef: float
    gate: Gate
    normaliser: Normaliser


LLDS_PRESETS = {
    "paper": LLDSSettings(coef=0.1, gate="response", normaliser="preserved"),
    "release": LLDSSettings(coef=0.2, gate="action", normaliser="all"),
}
"""Eq. 5 with the paper's λ, and the settings of the authors' training script. They differ: with a share s of the tokens
preserved, the release's penalty has the weight 0.2 s by the normaliser of eq. 5, such as 0.1 at s = 1/2."""


def require_settings(
    *, gate: str, answer_weight: float, answer_adaptive: bool = False, coef: float = 0.0, prefix: str = ""
) -> None:
    """Refuse settings of LLDS that cannot work.

    Args:
        gate: As in `llds_loss`.
        answer_weight: As in `llds_loss`.
        answer_adaptive: Whether `adaptive_answer_weight` multiplies the answer's weight.
        coef: λ of eq. 7.
        prefix: Precedes the names of the settings in an error.

    Raises:
        ValueError: If λ is negative or not finite, the gate is unknown, or the answer's weight is outside [0, 1], or 0
            where it is to be adaptive.
    """
    if not (coef >= 0 and math.isfinite(coef)):
        raise ValueError(f"{prefix}coef must be a finite number of at least 0, got {coef}")
    if gate not in get_args(Gate):
        raise ValueError(f'{prefix}gate must be "response", "action" or "none", got {gate!r}')
    if not 0 <= answer_weight <= 1:
        raise ValueError(f"{prefix}answer_weight must be in [0, 1], got {answer_weight}")
    if answer_adaptive and not answer_weight:
        raise ValueError(f"{prefix}answer_adaptive multiplies {prefix}answer_weight, which must be above 0, got 0")


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
    answer_weight: float = 0.0,
    normaliser: Normaliser | Tensor | float | None = None,
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
        gate: The part whose likelihood must have fallen for its tokens to be penalised.
        answer_mask: True on tokens of the final answer, shape ``(B, T)``: left out of the penalty, not of the gate
            and not of N (eq. 6).
        answer_weight: Factor on the penalty of the answer's tokens, in [0, 1]; 0 is eq. 6, and 1 is no answer mask.
        normaliser: N: ``"preserved"``, the action tokens of the preserving set here, which is the default; ``"all"``,
            all action tokens here; or a number, to share one over minibatches or ranks.

    Returns:
        The penalty, a scalar ≥ 0 in nats a token; 0 where the preserving set is empty, and at θ = θ_old.

    Raises:
        ValueError: If shapes do not belong together, the gate or the normaliser is unknown, or the answer's weight is
            outside [0, 1].
    """
    require_settings(gate=gate, answer_weight=answer_weight)
    require_shapes(logprobs, advantages, old_logprobs=old_logprobs, mask=mask, answer_mask=answer_mask)
    kept = mask & (advantages >= 0)[:, None]
    lost = torch.where(kept, upcast(old_logprobs).detach() - upcast(logprobs), 0.0)
    penalised = kept & _open_gate(lost.detach(), mask, gate)
    # relu and not clamp: the slope at exactly 0 has to be 0.
    penalty = lost.relu()
    if answer_mask is not None and answer_weight == 0:
        penalised = penalised & ~answer_mask
    elif answer_mask is not None:
        penalty = torch.where(answer_mask, answer_weight * penalty, penalty)
    return torch.where(penalised, penalty, 0.0).sum() / _count(kept, mask, normaliser)


def adaptive_answer_weight(weight: float, valid_searches: float) -> float:
    """Compute the answer's weight from the number of searches, as the authors' release does.

    w = min(1, weight · max(n̄ − 1, 0)). While the policy searches at most once per response, the answer is not
    penalised, so that the policy may learn to search more. With more searches the answer's weight grows.

    The release gives the answer a λ of its own, λ_a (``answer_no_reduce_lambda``, 0.2 in its script), and penalises it
    with min(λ_a · max(n̄ − 1, 0), λ). This is λ w at ``weight`` = λ_a / λ, such as 1 with the λ of its script.

    Args:
        weight: The weight at two searches a response, ≥ 0.
        valid_searches: n̄, mean number of valid searches a response in the rollout batch.
    """
    return min(1.0, weight * max(valid_searches - 1.0, 0.0))


def _count(kept: Tensor, mask: Tensor, normaliser: Normaliser | Tensor | float | None) -> Tensor | float:
    """Return N."""
    if normaliser is None:
        normaliser = "preserved"
    if isinstance(normaliser, str):
        if normaliser == "preserved":
            return kept.sum().clamp(min=1)
        if normaliser != "all":
            raise ValueError(f'normaliser must be "preserved", "all" or a number, got {normaliser!r}')
        return mask.sum().clamp(min=1)
    return normaliser


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
    """Mark the tokens whose response or action lost likelihood in sum; the result broadcasts to ``(B, T)``.

    A sum of NaN opens the gate too, so that the penalty is NaN and not a finite number without that part.
    """
    if gate == "none":
        return torch.ones_like(mask)
    if gate == "response":
        return ~(lost.sum(dim=1, keepdim=True) <= 0)
    # One further column takes the tokens outside actions (index −1 wraps to the last column).
    columns = action_index(mask) % (mask.shape[1] + 1)
    sums = lost.new_zeros(mask.shape[0], mask.shape[1] + 1).scatter_add_(1, columns, lost)
    return ~(sums.gather(1, columns) <= 0)
