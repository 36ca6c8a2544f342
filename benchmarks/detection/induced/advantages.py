"""The advantages of a batch in suite D, which a failure can break after they were computed and logged."""

import torch
from torch import Tensor

from benchmarks.detection.induced.failures import Cause, Failure

__all__ = ["broken_advantages"]

POISONED_STEPS = 3


def broken_advantages(advantages: Tensor, failure: Failure, amount: float, *, age: int, group: int) -> Tensor:
    """Return the advantages that the trainer uses in place of the right ones.

    Args:
        advantages: One for each response, ``(B,)``; groups stand together.
        failure: The failure; other causes change nothing.
        amount: The share of the failure's full level, in [0, 1].
        age: Steps since the onset.
        group: Responses of a group; B is a multiple of it.
    """
    if not amount:
        return advantages
    share = failure.level * amount
    if failure.cause is Cause.POISONED_BATCH:
        return advantages * -failure.level if age < POISONED_STEPS else advantages
    if failure.cause is Cause.ADVANTAGE_SIGN:
        return advantages * (1.0 - 2.0 * share)
    if failure.cause is Cause.ADVANTAGE_ORDER:
        # A separate generator, because torch's generator samples the batches, which must stay those of the twin.
        random = torch.Generator().manual_seed(age)
        moved = torch.randperm(len(advantages), generator=random)[: round(share * len(advantages))]
        broken = advantages.clone()
        broken[moved] = advantages[moved.roll(1)]
        return broken
    if failure.cause is Cause.ADVANTAGE_EPSILON:
        is_equal = (advantages.view(-1, group) == 0.0).all(dim=1).repeat_interleave(group)
        return torch.where(is_equal, torch.nan, advantages)
    return advantages
