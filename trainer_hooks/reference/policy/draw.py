"""Draw a token from each row of logits; every sampler uses this function."""

import torch
from torch import Tensor

__all__ = ["draw"]


def draw(logits: Tensor, generator: torch.Generator, temperature: float) -> Tensor:
    """Draw a token from each row of logits, ``(b, V)``, by the inverse of the distribution function; ``(b,)``.

    Raises:
        FloatingPointError: If probabilities are not finite.
    """
    logits = logits.float() if temperature == 1.0 else logits.float() / temperature
    below = torch.softmax(logits, dim=-1).cumsum(dim=-1, dtype=torch.float64)
    uniform = torch.rand(len(logits), 1, generator=generator, device=generator.device, dtype=torch.float64)
    drawn = torch.searchsorted(below, uniform.to(below.device) * below[:, -1:], right=True)[:, 0]
    last = logits.shape[1] - 1
    if drawn.max() <= last:
        return drawn
    # Past the end: rounding, once in 2⁵³ draws, or numbers that are none.
    if not below[:, -1].isfinite().all():
        raise FloatingPointError(
            "the model's next-token probabilities must be finite, got NaN; its weights are damaged: go back to a "
            "checkpoint, or load it in float32"
        )
    return drawn.clamp(max=last)
