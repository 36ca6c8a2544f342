"""KL-Cov: a KL penalty on the few tokens that lower the entropy most.

To first order a policy-gradient update changes the entropy by minus the covariance of ln π and the advantage. A few
tokens of a batch have by far the largest terms of that covariance; holding them near π_old holds the entropy.
"""

import torch
from torch import Tensor

from trainer_hooks.losses.token_arrays import require_shapes, upcast

__all__ = ["kl_cov_penalty", "token_covariances"]


def token_covariances(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """Compute each action token's term of the covariance of ln π and the advantage.

    c_k = (ln π(y_k) − mean ln π)(A_k − mean A), with means over all action tokens; 0 outside the mask. A token that is
    likely and has a high advantage, or is unlikely and has a low one, lowers the entropy.

    Args:
        logprobs: ln π of the sampled tokens, shape ``(B, T)``, nats; no gradient flows into it.
        advantages: A, shape ``(B,)``, or a token's own, shape ``(B, T)``.
        mask: True on action tokens, shape ``(B, T)``, bool.

    Returns:
        c, shape ``(B, T)``, nats times the advantage's unit.

    Raises:
        ValueError: If shapes do not belong together.
    """
    require_shapes(logprobs, advantages, by_token=True, mask=mask)
    held = torch.where(mask, upcast(logprobs).detach(), 0.0)
    weight = advantages.to(held.dtype)
    weight = torch.where(mask, weight[:, None] if weight.ndim == 1 else weight, 0.0)
    count = mask.sum().clamp(min=1)
    return torch.where(mask, (held - held.sum() / count) * (weight - weight.sum() / count), 0.0)


def kl_cov_penalty(
    logprobs: Tensor,
    old_logprobs: Tensor,
    mask: Tensor,
    advantages: Tensor,
    *,
    share: float = 2e-3,
    normaliser: Tensor | float | None = None,
) -> Tensor:
    """Compute the KL penalty on the tokens of the largest covariance terms, to be minimised.

    L = (1/N) Σ_{k∈S} |ln π_θ(y_k) − ln π_old(y_k)|, with S the max(1, ⌊share · action tokens⌋) action tokens whose
    c_k (`token_covariances`) is largest. The paper adds it with weight β = 1 to the objective without a clip:
    ``grpo_loss(..., clip_low=1.0, clip_high=math.inf) + kl_cov_penalty(...)``.

    Args:
        logprobs: ln π_θ of the sampled tokens, shape ``(B, T)``, nats.
        old_logprobs: ln π_old of the same tokens, shape ``(B, T)``, nats; no gradient flows into it.
        mask: True on action tokens, shape ``(B, T)``, bool.
        advantages: A, shape ``(B,)``, or a token's own, shape ``(B, T)``.
        share: Share of the action tokens that are held, in (0, 1]; the paper uses 2e-3 for 7 billion weights and 2e-4
            for 32.
        normaliser: N, to share one over minibatches or ranks; default: the action tokens of this mask.

    Returns:
        The penalty, a scalar ≥ 0 in nats a token; 0 without an action token. At θ = θ_old it and its gradient are 0.

    Raises:
        ValueError: If shapes do not belong together, or the share is outside (0, 1].

    Reference:
        Cui et al., "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models", section 4
        (arXiv 2505.22617).
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be in (0, 1], got {share}")
    require_shapes(logprobs, advantages, by_token=True, old_logprobs=old_logprobs, mask=mask)
    tokens = int(mask.sum())
    moved = torch.where(mask, upcast(logprobs) - upcast(old_logprobs).detach(), 0.0)
    if not tokens:
        return moved.sum()
    covariances = token_covariances(logprobs, advantages, mask).masked_fill(~mask, -torch.inf)
    chosen = covariances.flatten().topk(max(1, int(share * tokens))).indices
    return moved.flatten()[chosen].abs().sum() / (tokens if normaliser is None else normaliser)
