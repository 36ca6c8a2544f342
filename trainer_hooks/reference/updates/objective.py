"""The loss of one update: the clipped objective (eq. 1), the penalty λ L (eq. 4 to 7), and a KL term.

Pure functions of a batch and the log-probabilities of a forward pass.
"""

from torch import Tensor

from trainer_hooks.losses import grpo_loss, likelihood_loss, llds_loss
from trainer_hooks.reference.methods import Method
from trainer_hooks.reference.updates.batch import Minibatch, TrainingBatch

__all__ = ["k3_divergence", "policy_losses"]


def policy_losses(
    batch: TrainingBatch, part: Minibatch, logprobs: Tensor, *, method: Method, clip: float
) -> dict[str, Tensor]:
    """Compute the losses of a minibatch by signal name; ``loss/llds`` is measured whether or not λ weighs it.

    Args:
        batch: What `part` belongs to.
        part: The minibatch, with the normalisers that it shares with other ranks.
        logprobs: ln π_θ of its tokens under the weights as they are, shape ``(rows, T)``, nats.
        method: Gate of the penalty (eq. 5 where it has none), whether it leaves out the answer, and the placebo.
        clip: ε of eq. 1.
    """
    rows = part.rows
    old, mask = batch.old_logprobs[rows], batch.mask[rows]
    losses = {
        "loss/policy": grpo_loss(
            logprobs,
            old,
            mask,
            batch.advantages[rows],
            clip_low=clip,
            clip_high=clip,
            normaliser=part.tokens,
            token_scales=None if batch.token_scales is None else batch.token_scales[rows],
        ),
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
