"""Rewards, correctness, advantages, and groups whose rewards are all equal, which give no gradient."""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.response_actions.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, moments, share

__all__ = ["NAMES", "compute"]

NAMES = (
    "reward/mean",
    "reward/std",
    "reward/correct_frac",
    "reward/neutral_frac",
    "reward/negative_frac",
    "reward/zero_std_frac",
    "reward/all_correct_frac",
    "reward/all_wrong_frac",
    "advantage/mean_abs",
)


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the distribution of rewards over responses, and the share of groups without variance."""
    rollouts, library = tokens.rollouts, tokens.library
    found = {
        "reward/mean": moments(library, rollouts.rewards),
        "reward/std": moments(library, rollouts.rewards, None, "std"),
        "reward/correct_frac": moments(library, rollouts.correct),
        "reward/neutral_frac": moments(library, rollouts.rewards == 0),
        "reward/negative_frac": moments(library, rollouts.rewards < 0),
    }
    if rollouts.advantages is not None:
        advantages, where = tokens.select_counted(rollouts.advantages)
        found["advantage/mean_abs"] = moments(library, abs(advantages), where)
    return found if tokens.group is None else found | _zero_variance_groups(tokens, tokens.group)


def _zero_variance_groups(tokens: ActionTokens, group: Array) -> dict[str, PendingSummary]:
    """Compute the share of groups whose rewards are all equal: their advantages are 0.

    A group counts where this rank holds two or more of its responses.
    """
    rewards, correct, library = tokens.rollouts.rewards, tokens.rollouts.correct, tokens.library
    responses = len(group)
    order = library.argsort(group)
    # The rewards of a group are all equal where no neighbours differ; NaN differs from everything.
    rewards, grouped = rewards[order], group[order]
    differs = (rewards[1:] != rewards[:-1]) & (grouped[1:] == grouped[:-1])
    differences = library.sum_by(differs, grouped[1:], responses)
    sizes = library.sum_by(tokens.xp.ones_like(correct), group, responses)
    correct_counts = library.sum_by(correct, group, responses)
    is_counted = sizes > 1
    has_no_variance = is_counted & (differences == 0)
    groups = is_counted.sum()
    return {
        "reward/zero_std_frac": share(has_no_variance.sum(), groups),
        "reward/all_correct_frac": share((has_no_variance & (correct_counts == sizes)).sum(), groups),
        "reward/all_wrong_frac": share((has_no_variance & (correct_counts == 0)).sum(), groups),
    }
