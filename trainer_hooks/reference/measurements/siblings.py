"""Measures whether wrong siblings lower a correct response, where a group's responses are in different minibatches.

With ``split_groups``, some of a group's incorrect responses are updated before a correct response, and some are not.
Within a minibatch, d = ln π_old − ln π_θ before the update is compared between correct responses with wrong siblings
that were already updated and correct responses without such siblings. Both follow the same number of updates, so equal
means refute displacement inside the group.
"""

from collections.abc import Sequence
from statistics import fmean

import torch

from trainer_hooks.reference.updates.batch import Minibatch, TrainingBatch

__all__ = ["sibling_signals"]


def sibling_signals(batch: TrainingBatch, order: Sequence[Minibatch]) -> dict[str, float]:
    """Compare d by whether wrong siblings were updated before.

    Args:
        batch: A batch after its first pass: ``logprobs`` are those just before each response's own update.
        order: The minibatches in the order of that pass.

    Returns:
        ``siblings/lost_after_wrong`` and ``siblings/lost_before_wrong``: mean of Σ_k d_k over correct responses of
        mixed groups with and without an updated wrong sibling, nats a response; ``siblings/lost_within``: mean over
        minibatches that have both of the difference between them. Each is absent where it has no response.
    """
    lost = torch.where(batch.mask, batch.old_logprobs - batch.logprobs, 0.0).sum(dim=1)
    correct = batch.rewards > 0
    groups = batch.group_ids.tolist()
    wrong_groups = {group for group, is_right in zip(groups, correct.tolist(), strict=True) if not is_right}
    updated: set[int] = set()
    after: list[float] = []
    before: list[float] = []
    within: list[float] = []
    for part in order:
        here: tuple[list[float], list[float]] = ([], [])
        for row in part.rows.tolist():
            if correct[row] and groups[row] in wrong_groups:
                here[groups[row] in updated].append(lost[row].item())
        before += here[0]
        after += here[1]
        if here[0] and here[1]:
            within.append(fmean(here[1]) - fmean(here[0]))
        updated |= {groups[row] for row in part.rows.tolist() if not correct[row]}
    found = {"after_wrong": after, "before_wrong": before, "within": within}
    return {f"siblings/lost_{name}": fmean(values) for name, values in found.items() if values}
