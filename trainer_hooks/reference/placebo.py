"""The control for LLDS: likelihood raised on the same responses at the same weight, with no gate and no reference."""

import torch
from torch import Tensor

__all__ = ["likelihood_placebo"]


def likelihood_placebo(logprobs: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
    """Give −(1/N) Σ_{i: A_i ≥ 0} Σ_k ln π_θ(y_{i,k}), N = action tokens of the preserving set (that of eq. 4 to 6).

    What LLDS does that this does not is due to its gate and to its reference, not to the extra likelihood.

    Args:
        logprobs: ln π_θ of the sampled tokens, shape ``(B, T)``, nats.
        mask: True on action tokens, shape ``(B, T)``, bool.
        advantages: A_i, shape ``(B,)``.

    Returns:
        A scalar ≥ 0, nats a token; 0 where the preserving set is empty.
    """
    kept = mask & (advantages >= 0)[:, None]
    return -torch.where(kept, logprobs, 0.0).sum() / kept.sum().clamp(min=1)
