"""STARE: larger advantages for surprising tokens of good responses while the entropy is below a target."""

import torch
from torch import Tensor

from trainer_hooks.losses.token_arrays import require_shapes, upcast

__all__ = ["stare_scales"]


def stare_scales(
    logprobs: Tensor,
    mask: Tensor,
    advantages: Tensor,
    entropy: Tensor | float,
    *,
    target: float = 0.3,
    share: float = 0.1,
    raised: float = 1.1,
    lowered: float = 1.0,
) -> Tensor:
    """Compute STARE's factors of the advantage at each token, for ``grpo_loss(..., token_scales=)``.

    Of the action tokens with A > 0, the max(1, ⌊share · n⌋) of the highest surprisal −ln π get the factor ``raised``:
    raising them raises the entropy. Of those with A < 0, as many get ``lowered``: pushing them down lowers it. All
    others get 1. While the batch's mean entropy is at the target or above, every factor is 1.

    Args:
        logprobs: ln π_old of the sampled tokens, shape ``(B, T)``, nats; no gradient flows into it.
        mask: True on action tokens, shape ``(B, T)``, bool.
        advantages: A, shape ``(B,)``, or a token's own, shape ``(B, T)``.
        entropy: Mean entropy of the batch's action tokens, nats.
        target: Entropy from which on nothing is changed, nats.
        share: Share of tokens in each of the two sets, in (0, 1].
        raised: Factor of surprising tokens with A > 0, at least 1; the authors use 1.1, and 1.05 from 14 billion
            weights on.
        lowered: Factor of surprising tokens with A < 0, in [0, 1]. 1 is the authors' one-sided variant, which is their
            default; 0.9 is their two-sided one.

    Returns:
        Factors, shape ``(B, T)``.

    Raises:
        ValueError: If shapes do not belong together, or a setting is outside its range.

    Reference:
        Luo et al., "STARE: Surprisal-Guided Token-Level Advantage Reweighting for Policy Entropy Stability" (arXiv
        2606.19236), with the settings of its released scripts.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be in (0, 1], got {share}")
    if not (raised >= 1 >= lowered >= 0):
        raise ValueError(f"raised must be at least 1 and lowered in [0, 1], got {raised} and {lowered}")
    require_shapes(logprobs, advantages, by_token=True, mask=mask)
    surprisal = -upcast(logprobs).detach()
    scales = torch.ones_like(surprisal, memory_format=torch.contiguous_format)
    if float(entropy) >= target:
        return scales
    weight = advantages[:, None].expand(mask.shape) if advantages.ndim == 1 else advantages
    for tokens, factor in ((mask & (weight > 0), raised), (mask & (weight < 0), lowered)):
        count = int(tokens.sum())
        if count and factor != 1.0:
            ordered = surprisal.masked_fill(~tokens, -torch.inf).flatten()
            scales.view(-1)[ordered.topk(max(1, int(share * count))).indices] = factor
    return scales
