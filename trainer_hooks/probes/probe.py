"""Paired re-scoring: the same tokens under the weights before and after an update. Knows torch and no framework.

It costs one forward pass of the responses after the update, and one before it where their scores are not there anyway,
at every n-th step.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, distributed
from torch.nn.modules.module import register_module_forward_pre_hook

from trainer_hooks.probes.paired import Paired
from trainer_hooks.ranks.unanimity import Unanimity

__all__ = ["PairedProbe", "Scorer"]

Scorer: TypeAlias = Callable[[], tuple[Tensor, Tensor | None]]


class Noted(NamedTuple):
    """Responses that wait for the update."""

    score: Scorer
    before: tuple[Tensor, Tensor | None]
    mask: Tensor
    correct: Tensor
    fresh: Tensor | None


class PairedProbe:
    """Remembers responses of a step, and scores them again after the update.

    Give it responses that the update is not about: of groups whose rewards are all equal, or held out from it by you.
    Those that it is about may be among them, and are told apart by ``fresh``.

    With several processes a forward pass may be collective: sharded weights are gathered, and DistributedDataParallel
    sends buffers. So every rank has to note as often at the same steps, whatever it finds in its responses, and nothing
    is due before all ranks are known to have a probe that scores: from the third step on, or never. Make it on every
    rank. Random generators are left where they were.

    Args:
        every: Score at each step whose number is a multiple of this, ≥ 1.
    """

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}")
        self._every = every
        self._ranks = Unanimity(f"paired re-scoring every {every} steps")
        self._noted: list[Noted] = []

    def is_due(self, step: int) -> bool:
        """Say whether this step is one to score at; every rank says the same."""
        return step % self._every == 0 and self._ranks.is_found

    def note(
        self,
        score: Scorer,
        *,
        mask: Tensor,
        correct: Tensor,
        fresh: Tensor | None = None,
        before: tuple[Tensor, Tensor | None] | None = None,
    ) -> None:
        """Remember responses before the update.

        Args:
            score: Gives log-probabilities, and entropies or None, under the weights as they are, ``(B, T)``, nats.
            mask: True on action tokens, shape ``(B, T)``.
            correct: Whether each response is correct, shape ``(B,)``.
            fresh: True on responses that the update is not about, shape ``(B,)``; all unless given.
            before: What ``score`` would give now; without it, it is called.
        """
        self._noted.append(Noted(score, before or _scored(score), mask, correct, fresh))

    def forget(self) -> None:
        """Drop what waits for an update that was never made, as where a training raised in between."""
        self._noted.clear()

    def after_update(self) -> list[Paired]:
        """Score what was noted once more, under the weights as they are now, and forget it; call it at every step."""
        self._ranks.after_step()
        noted, self._noted = self._noted, []
        return [
            Paired(item.before, _scored(item.score), mask=item.mask, correct=item.correct, fresh=item.fresh)
            for item in noted
        ]


def _scored(score: Scorer) -> tuple[Tensor, Tensor | None]:
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.no_grad(), torch.random.fork_rng(devices), _resharding():
        return score()


@contextmanager
def _resharding() -> Iterator[None]:
    """Let every module that FSDP shards, and that is called meanwhile, gather its weights anew when it is next called.

    The outermost keeps them gathered after a forward pass, for the backward pass that FSDP expects. After one that has
    none, an update would change the shards alone, and the next pass, training's own too, would be of the old weights.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        yield
        return
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel  # noqa: PLC0415 - half a second, for few

    called: list[Any] = []
    listening = register_module_forward_pre_hook(lambda module, _: called.append(module))
    try:
        yield
    finally:
        listening.remove()
        for module in called:
            if isinstance(module, FSDPModule):
                module.reshard()
            elif isinstance(module, FullyShardedDataParallel):
                handle = module._handle  # noqa: SLF001 - FSDP1 has no other name for it
                if handle is not None:
                    handle.reshard(True)
