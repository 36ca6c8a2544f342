"""Checks and converts the token arrays that all losses receive, and numbers the actions in a mask."""

import torch
from torch import Tensor

__all__ = ["action_index", "require_shapes", "upcast"]


def require_shapes(
    logprobs: Tensor, advantages: Tensor, *, by_token: bool = False, **same_shape: Tensor | None
) -> None:
    """Raise an error where the shapes of arrays do not match, or a mask is not boolean.

    Args:
        logprobs: Token log-probabilities, shape ``(B, T)``.
        advantages: One advantage a response, shape ``(B,)``.
        by_token: Whether there may be one advantage a token instead, shape ``(B, T)``.
        same_shape: Arrays that must have the shape of ``logprobs``; None is skipped. Those named as masks must be
            boolean.

    Raises:
        ValueError: If a shape or the kind of a mask differs; the message names the array.
    """
    if logprobs.ndim != 2:  # noqa: PLR2004 - responses and tokens
        raise ValueError(f"logprobs must have shape (B, T), got {tuple(logprobs.shape)}")
    for name, tensor in same_shape.items():
        if tensor is not None and tensor.shape != logprobs.shape:
            raise ValueError(
                f"{name} must have the shape of logprobs {tuple(logprobs.shape)}, got {tuple(tensor.shape)}"
            )
        if tensor is not None and name.endswith("mask") and tensor.dtype != torch.bool:
            raise ValueError(f"{name} must be boolean, got {tensor.dtype}; pass {name}.bool()")
    if advantages.shape != logprobs.shape[:1] and not (by_token and advantages.shape == logprobs.shape):
        token = f", or {tuple(logprobs.shape)}, one a token" if by_token else ""
        raise ValueError(
            f"advantages must have shape ({logprobs.shape[0]},), one number a response{token}, "
            f"got {tuple(advantages.shape)}"
        )


def upcast(tensor: Tensor) -> Tensor:
    """Convert to float32 unless the tensor is float64, because bfloat16 loses differences of near log-probabilities."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def action_index(mask: Tensor) -> Tensor:
    """Number the actions of each response: contiguous runs of True in the mask, from 0.

    Args:
        mask: True on action tokens, shape ``(B, T)``.

    Returns:
        Index of the action that each token belongs to, shape ``(B, T)``, integer; −1 outside actions.
    """
    starts = mask.clone()
    starts[:, 1:] &= ~mask[:, :-1]
    return (starts.long().cumsum(dim=1) - 1).masked_fill(~mask, -1)
