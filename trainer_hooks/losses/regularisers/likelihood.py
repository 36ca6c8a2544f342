"""A control for LLDS: plain negative log-likelihood of the preserving set, whether or not it lost likelihood."""

from torch import Tensor

from trainer_hooks.losses.token_arrays import require_shapes, upcast

__all__ = ["likelihood_loss"]


def likelihood_loss(
    logprobs: Tensor, mask: Tensor, advantages: Tensor, *, normaliser: Tensor | float | None = None
) -> Tensor:
    """Compute the mean negative log-likelihood of the preserving set's action tokens, to be minimised.

    L = −(1/N) Σ_{i: A_i ≥ 0} Σ_k ln π_θ(y_{i,k}), N as in `llds_loss`.
    There is no gate and no old policy. As a control it shows how much of the effect of LLDS any likelihood term of
    equal weight would have.

    Args:
        logprobs: ln π_θ of the sampled tokens, shape ``(B, T)``, nats.
        mask: True on action tokens, shape ``(B, T)``, bool.
        advantages: A_i, shape ``(B,)``.
        normaliser: N, to share one over minibatches or ranks; default: the preserving set's action tokens here.

    Returns:
        The loss, a scalar ≥ 0 in nats a token; 0 where the preserving set is empty.

    Raises:
        ValueError: If shapes do not belong together.
    """
    require_shapes(logprobs, advantages, mask=mask)
    kept = mask & (advantages >= 0)[:, None]
    count = kept.sum().clamp(min=1) if normaliser is None else normaliser
    return -upcast(logprobs).masked_fill(~kept, 0.0).sum() / count
