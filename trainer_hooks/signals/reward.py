"""Rewards, correctness, advantages, and groups that teach nothing."""

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import moments, observed, share
from trainer_hooks.wire import Summary

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


def reward(tokens: ActionTokens) -> dict[str, Summary]:
    """Give the distribution of rewards over responses, and the share of groups without variance."""
    rollouts = tokens.rollouts
    advantages = None if rollouts.advantages is None else tokens.observed(rollouts.advantages)
    return observed(
        {
            "reward/mean": moments(rollouts.rewards),
            "reward/std": moments(rollouts.rewards, "std"),
            "reward/correct_frac": share(int(rollouts.correct.sum()), rollouts.correct.size),
            "advantage/mean_abs": None if advantages is None else moments(np.abs(advantages)),
        }
    ) | ({} if rollouts.group_ids is None else _dead_groups(rollouts.rewards, rollouts.correct, rollouts.group_ids))


def _dead_groups(
    rewards: NDArray[np.floating], correct: NDArray[np.bool_], group_ids: NDArray[np.int64]
) -> dict[str, Summary]:
    """Share of groups whose rewards are all equal: their advantages are 0.

    A group counts where this rank holds two of its responses or more.
    """
    _, group, sizes = np.unique(group_ids, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    begins = np.cumsum(sizes) - sizes
    highest = np.maximum.reduceat(rewards[order], begins)
    lowest = np.minimum.reduceat(rewards[order], begins)
    is_counted = sizes > 1
    is_dead = (highest == lowest) & is_counted
    rights = np.bincount(group, weights=correct)
    groups = int(is_counted.sum())
    return observed(
        {
            "reward/zero_std_frac": share(int(is_dead.sum()), groups),
            "reward/all_correct_frac": share(int((is_dead & (rights == sizes)).sum()), groups),
            "reward/all_wrong_frac": share(int((is_dead & (rights == 0)).sum()), groups),
        }
    )
