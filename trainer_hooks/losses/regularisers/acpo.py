"""ACPO: a wider clip for tokens whose likelihood ratios vary more."""

import torch
from torch import Tensor

from trainer_hooks.losses.token_arrays import upcast

__all__ = ["acpo_clip"]

LARGEST_LOG_RATIO = 30.0


def acpo_clip(
    logprobs: Tensor,
    old_logprobs: Tensor,
    mask: Tensor,
    *,
    base: float = 0.2,
    alpha: float = 3.0,
    lowest: float = 0.0,
    highest: float = 3.0,
    bins: int = 5,
) -> Tensor:
    """Compute ACPO's clip range of each token, for ``grpo_loss(..., clip_low=ε, clip_high=ε)``.

    ε_b = min(max(base + α σ_b, lowest), highest), with σ_b the standard deviation (population) of the ratio γ over the
    action tokens whose probability π_θ is in the bin b of ``bins`` equally wide ones. Likely tokens have ratios near 1;
    with a single ε the clip therefore acts on unlikely tokens almost alone.

    Args:
        logprobs: ln π_θ of the sampled tokens, shape ``(B, T)``, nats; no gradient flows into it.
        old_logprobs: ln π_old of the same tokens, shape ``(B, T)``, nats.
        mask: True on action tokens, shape ``(B, T)``, bool.
        base: ε where ratios do not vary, at least 0.
        alpha: α ≥ 0.
        lowest: Least ε.
        highest: Largest ε. Where ε_b ≥ 1, ratios are not clipped from below.
        bins: Number of bins of [0, 1].

    Returns:
        ε, shape ``(B, T)``; ``base`` outside the mask.

    Raises:
        ValueError: If shapes differ, or there is no bin.

    Reference:
        "What are Key Factors for Updates in RL for LLM Reasoning?" (arXiv 2606.22570), with the settings of its
        released scripts.
    """
    if not logprobs.shape == old_logprobs.shape == mask.shape:
        shapes = [tuple(array.shape) for array in (logprobs, old_logprobs, mask)]
        raise ValueError(f"logprobs, old_logprobs and mask must have one shape, got {shapes}")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    held = upcast(logprobs).detach()
    # One such ratio spreads its bin far beyond the largest ε; float32 cannot square larger ones.
    ratio = torch.where(mask, held - upcast(old_logprobs).detach(), 0.0).clamp(max=LARGEST_LOG_RATIO).exp()
    place = (held.exp() * bins).long().clamp(0, bins - 1)
    ranges = torch.full_like(ratio, base)
    for number in range(bins):
        here = mask & (place == number)
        if here.any():
            ranges[here] = (base + alpha * ratio[here].std(correction=0)).clamp(lowest, highest)
    return ranges
