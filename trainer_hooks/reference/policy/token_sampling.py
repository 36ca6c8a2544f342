"""Draws a token from each row of logits; every sampler uses this module.

The sampler's distribution is that of the policy at temperature 1 and top-p 1. Otherwise it is another distribution,
softmax(z / T) restricted to the most probable tokens, and its log-probability is kept beside the policy's own.
"""

import torch
from torch import Tensor

__all__ = ["draw", "sampler_logits", "sampler_logprobs"]


def draw(logits: Tensor, generator: torch.Generator, temperature: float, top_p: float = 1.0) -> Tensor:
    """Draw a token from each row of logits, ``(b, V)``, by the inverse of the distribution function; ``(b,)``.

    Args:
        logits: The policy's own, shape ``(b, V)``.
        generator: The only source of randomness.
        temperature: T, above 0.
        top_p: Mass of the most probable tokens that are drawn from, in (0, 1].

    Raises:
        FloatingPointError: If probabilities are not finite.
    """
    logits = sampler_logits(logits, temperature, top_p)
    below = torch.softmax(logits, dim=-1).cumsum(dim=-1, dtype=torch.float64)
    uniform = torch.rand(len(logits), 1, generator=generator, device=generator.device, dtype=torch.float64)
    drawn = torch.searchsorted(below, uniform.to(below.device) * below[:, -1:], right=True)[:, 0]
    last = logits.shape[1] - 1
    if drawn.max() <= last:
        return drawn
    # A draw lies past the end because of rounding, once in 2⁵³ draws, or because the logits are not numbers.
    if not below[:, -1].isfinite().all():
        raise FloatingPointError(
            "the model's next-token probabilities must be finite, got NaN; its weights are damaged: go back to a "
            "checkpoint, or load it in float32"
        )
    return drawn.clamp(max=last)


def sampler_logits(logits: Tensor, temperature: float, top_p: float) -> Tensor:
    """Compute the logits of the distribution that is drawn from, shape ``(b, V)``, float32.

    They are z / T, and −∞ for every token outside the smallest set of most probable tokens whose mass reaches top-p.
    """
    logits = logits.float() if temperature == 1.0 else logits.float() / temperature
    if top_p == 1.0:
        return logits
    ordered, order = logits.sort(dim=-1, descending=True)
    masses = ordered.softmax(dim=-1)
    # The token that reaches the mass is the last one kept, so the most probable token always is.
    is_outside = masses.cumsum(dim=-1) - masses >= top_p
    return logits.masked_fill(is_outside.gather(1, order.argsort(dim=-1)), -torch.inf)


def sampler_logprobs(logits: Tensor, tokens: Tensor, temperature: float, top_p: float) -> Tensor:
    """Compute ln of the probability with which tokens were drawn, shape ``(b,)``, nats.

    Args:
        logits: The policy's own, shape ``(b, V)``.
        tokens: Token ids, shape ``(b,)``.
        temperature: T, above 0.
        top_p: In (0, 1].
    """
    log_q = sampler_logits(logits, temperature, top_p).log_softmax(dim=-1)
    return log_q.gather(1, tokens[:, None].to(log_q.device))[:, 0]
