"""The loss of one update: the clipped objective (eq. 1), the penalties of the methods (eq. 4 to 7), and a KL term.

Pure functions of a batch and the log-probabilities of a forward pass.
"""

import math

import torch
from torch import Tensor

from trainer_hooks.losses import acpo_clip, grpo_loss, kl_cov_penalty, likelihood_loss, llds_loss
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.methods import LossMethod
from trainer_hooks.reference.updates.batch import Minibatch, TrainingBatch

__all__ = ["clipped_loss", "k3_divergence", "policy_losses"]


def clipped_loss(
    batch: TrainingBatch, part: Minibatch, logprobs: Tensor, *, config: Config, kept: Tensor | None = None
) -> Tensor:
    """Compute −J of eq. 1 on a minibatch, with the method's clip and token weights.

    Args:
        batch: The batch of the minibatch.
        part: The minibatch.
        logprobs: ln π_θ of its tokens under the weights as they are, shape ``(rows, T)``, nats.
        config: Method and clip.
        kept: Responses of the minibatch whose advantages count, shape ``(rows,)``, bool; default: all.
    """
    rows, method = part.rows, config.optimises
    old, mask, advantages = batch.old_logprobs[rows], batch.mask[rows], batch.advantages[rows]
    if kept is not None:
        advantages = torch.where(kept if advantages.ndim == 1 else kept[:, None], advantages, 0.0)
    low: Tensor | float
    high: Tensor | float
    low, high = config.clip_range
    if method.adapts_clip:
        low = high = acpo_clip(logprobs, old, mask, base=config.clip)
    elif method.holds_covariance:
        low, high = 1.0, math.inf
    return grpo_loss(
        logprobs,
        old,
        mask,
        advantages,
        clip_low=low,
        clip_high=high,
        normaliser=part.tokens,
        token_scales=None if batch.token_scales is None else batch.token_scales[rows],
    )


def policy_losses(batch: TrainingBatch, part: Minibatch, logprobs: Tensor, *, config: Config) -> dict[str, Tensor]:
    """Compute the losses of a minibatch by signal name; ``loss/llds`` is measured whether or not λ weighs it.

    Args:
        batch: The batch of the minibatch.
        part: The minibatch, with the normalisers that it shares with other ranks.
        logprobs: ln π_θ of its tokens under the weights as they are, shape ``(rows, T)``, nats.
        config: The method, with the gate of its penalty (eq. 5 where it has none), and ε of eq. 1.
    """
    rows = part.rows
    method: LossMethod = config.optimises
    old, mask = batch.old_logprobs[rows], batch.mask[rows]
    losses = {
        "loss/policy": clipped_loss(batch, part, logprobs, config=config),
        "loss/llds": llds_loss(
            logprobs,
            old,
            mask,
            batch.response_advantages[rows],
            gate=method.gate or "response",
            answer_mask=batch.answer_mask[rows] if method.masks_answer else None,
            answer_weight=batch.answer_weight,
            normaliser=part.tokens if method.normaliser == "all" else part.preserved,
        ),
    }
    if method.is_placebo:
        kept = batch.response_advantages[rows]
        losses["loss/placebo"] = likelihood_loss(logprobs, mask, kept, normaliser=part.preserved)
    if method.holds_covariance:
        losses["loss/kl_cov"] = kl_cov_penalty(
            logprobs, old, mask, batch.advantages[rows], share=config.covariance_share, normaliser=part.tokens
        )
    return losses


def k3_divergence(logprobs: Tensor, reference: Tensor, mask: Tensor, *, normaliser: Tensor) -> Tensor:
    """Estimate KL(π_θ ‖ π_ref) a token by k3: r − ln r − 1 with r = π_ref/π_θ.

    Args:
        logprobs: ln π_θ, shape ``(B, T)``, nats.
        reference: ln π_ref of the same tokens, shape ``(B, T)``, nats.
        mask: True on action tokens, shape ``(B, T)``.
        normaliser: Action tokens to average over.
    """
    log_ratio = (reference - logprobs) * mask
    return (log_ratio.exp() - log_ratio - 1).sum() / normaliser
