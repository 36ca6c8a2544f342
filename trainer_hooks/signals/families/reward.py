"""Rewards, correctness, advantages, and groups that teach nothing."""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import PendingSummary, moments, share

__all__ = ["NAMES", "reward"]

NAMES = (
    "reward/mean",
    "reward/std",
    "reward/correct_frac",
    "reward/zero_std_frac",
    "reward/all_correct_frac",
    "reward/all_wrong_frac",
    "advantage/mean_abs",
)


def reward(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Give the distribution of rewards over responses, and the share of groups without variance."""
    rollouts, library = tokens.rollouts, tokens.library
    found = {
        "reward/mean": moments(library, rollouts.rewards),
        "reward/std": moments(library, rollouts.rewards, None, "std"),
        "reward/correct_frac": moments(library, rollouts.correct),
    }
    if rollouts.advantages is not None:
        advantages, where = tokens.observed(rollouts.advantages)
        found["advantage/mean_abs"] = moments(library, abs(advantages), where)
    return found if tokens.group is None else found | _dead_groups(tokens, tokens.group)


def _dead_groups(tokens: ActionTokens, group: Array) -> dict[str, PendingSummary]:
    """Share of groups whose rewards are all equal: their advantages are 0.

    A group counts where this rank holds two of its responses or more.
    """
    rewards, correct, library = tokens.rollouts.rewards, tokens.rollouts.correct, tokens.library
    responses = len(group)
    order = library.order(group)
    # Within a group all are equal where no neighbour differs; NaN differs from everything.
    rewards, grouped = rewards[order], group[order]
    differs = (rewards[1:] != rewards[:-1]) & (grouped[1:] == grouped[:-1])
    differences = library.added(differs, grouped[1:], responses)
    sizes = library.added(tokens.xp.ones_like(correct), group, responses)
    rights = library.added(correct, group, responses)
    is_counted = sizes > 1
    is_dead = is_counted & (differences == 0)
    groups = is_counted.sum()
    return {
        "reward/zero_std_frac": share(is_dead.sum(), groups),
        "reward/all_correct_frac": share((is_dead & (rights == sizes)).sum(), groups),
        "reward/all_wrong_frac": share((is_dead & (rights == 0)).sum(), groups),
    }
