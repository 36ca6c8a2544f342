"""Paired re-scoring: the same tokens under the weights before and after an update. Knows torch and no framework.

The scores before the update are the ones that the loss computed anyway; the call that gave them is made once more, with
the same arguments, after the update. That costs one forward pass of one microbatch at every n-th step.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["PairedProbe", "paired_signals"]

Scorer = Callable[..., tuple[Tensor, Tensor | None]]


class PairedProbe:
    """Remembers one scoring call of a step and repeats it after the update.

    Every rank repeats its call at the same steps whatever it finds in it, because under sharding a forward pass is
    collective. Random generators are left where they were.

    Args:
        every: Repeat at each step whose number is a multiple of this, ≥ 1.
    """

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}")
        self._every = every
        self._call: tuple[Scorer, tuple[Any, ...], Mapping[str, Any]] | None = None

    def wants(self, step: int) -> bool:
        """Say whether this step's call is to be remembered: it is one, and none is held."""
        return step % self._every == 0 and self._call is None

    def remember(self, scorer: Scorer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Take the call; `scorer` gives log-probabilities and entropies, shape ``(B, T)``."""
        self._call = scorer, args, kwargs

    def repeat(self) -> tuple[Tensor, Tensor | None] | None:
        """Score the remembered tokens under the weights as they are now; None where nothing was remembered."""
        if self._call is None:
            return None
        scorer, args, kwargs = self._call
        self._call = None
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        with torch.no_grad(), torch.random.fork_rng(devices):
            return scorer(*args, **kwargs)


def paired_signals(
    before: tuple[Tensor, Tensor | None],
    after: tuple[Tensor, Tensor | None],
    *,
    mask: Tensor,
    fresh: Tensor,
    correct: Tensor,
) -> dict[str, float]:
    """Give what an update did to the tokens of a microbatch.

    Responses of groups whose rewards are all equal gave the policy loss no gradient: they are fresh contexts that the
    update was not about. All others were trained.

    ``entropy/paired_delta`` = mean over tokens of fresh responses of H after − H before; ``displacement/cross`` and
    ``displacement/self`` = mean over tokens of correct responses, fresh and trained, of ln π after − ln π before.

    Args:
        before: Log-probabilities and entropies before the update, shape ``(B, T)``, nats.
        after: The same after it.
        mask: True on action tokens, shape ``(B, T)``, bool.
        fresh: True on responses of groups without reward variance, shape ``(B,)``, bool.
        correct: Shape ``(B,)``, bool.

    Returns:
        Signals by name; absent where there is no such token.
    """
    displacement = after[0].float() - before[0].float()
    found = {
        "displacement/cross": (displacement, fresh & correct),
        "displacement/self": (displacement, ~fresh & correct),
    }
    if before[1] is not None and after[1] is not None:
        found["entropy/paired_delta"] = (after[1].float() - before[1].float(), fresh)
    chosen = {name: values[mask & rows[:, None]] for name, (values, rows) in found.items()}
    return {name: float(values.mean()) for name, values in chosen.items() if values.numel()}
