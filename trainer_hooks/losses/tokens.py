"""What all losses share about token arrays: checked shapes, low precision lifted, actions told apart."""

from torch import Tensor, bfloat16, float16

__all__ = ["action_index", "lifted", "require_shapes"]


def require_shapes(logprobs: Tensor, advantages: Tensor, **same_shape: Tensor | None) -> None:
    """Refuse arrays that cannot belong together.

    Args:
        logprobs: Token log-probabilities, shape ``(B, T)``.
        advantages: One advantage a response, shape ``(B,)``.
        same_shape: Arrays that must have the shape of ``logprobs``; None is skipped.

    Raises:
        ValueError: If a shape differs; the message names the array.
    """
    if logprobs.ndim != 2:  # noqa: PLR2004 - responses and tokens
        raise ValueError(f"logprobs must have shape (B, T), got {tuple(logprobs.shape)}")
    for name, tensor in same_shape.items():
        if tensor is not None and tensor.shape != logprobs.shape:
            raise ValueError(
                f"{name} must have the shape of logprobs {tuple(logprobs.shape)}, got {tuple(tensor.shape)}"
            )
    if advantages.shape != logprobs.shape[:1]:
        raise ValueError(
            f"advantages must have shape ({logprobs.shape[0]},), one number a response, got {tuple(advantages.shape)}"
        )


def lifted(tensor: Tensor) -> Tensor:
    """Give a half-precision tensor as float32: differences of nearby log-probabilities vanish in bfloat16."""
    return tensor.float() if tensor.dtype in (bfloat16, float16) else tensor


def action_index(mask: Tensor) -> Tensor:
    """Number the actions of each response: contiguous runs of True in the mask, from 0.

    Args:
        mask: True on action tokens, shape ``(B, T)``.

    Returns:
        Index of the action a token belongs to, shape ``(B, T)``, integer; −1 outside actions.
    """
    starts = mask.clone()
    starts[:, 1:] &= ~mask[:, :-1]
    return (starts.long().cumsum(dim=1) - 1).masked_fill(~mask, -1)
