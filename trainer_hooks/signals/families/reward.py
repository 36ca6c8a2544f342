"""Rewards, correctness, advantages, and groups whose rewards are all equal, which give no gradient."""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, moments, share

__all__ = ["NAMES", "compute"]

# Relative to the squares themselves: float32 advantages of equal rewards differ by no more.
ROUNDING = 1e-10

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
    "advantage/reward_corr",
)


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the distribution of rewards over responses, and the share of groups without variance."""
    rollouts, library = tokens.rollouts, tokens.library
    is_finite, correct = tokens.xp.isfinite(rollouts.rewards), rollouts.is_correct
    found = {
        "reward/mean": moments(library, rollouts.rewards),
        "reward/std": moments(library, rollouts.rewards, None, "std"),
        "reward/correct_frac": moments(library, correct, correct | rollouts.is_incorrect),
        "reward/neutral_frac": moments(library, rollouts.rewards == 0, is_finite),
        "reward/negative_frac": moments(library, rollouts.rewards < 0, is_finite),
    }
    if rollouts.advantages is not None:
        advantages, where = tokens.select_counted(rollouts.advantages)
        found["advantage/mean_abs"] = moments(library, abs(advantages), where)
    if tokens.group is None:
        return found
    if tokens.mean_advantages is not None:
        found["advantage/reward_corr"] = _correlate(tokens, tokens.group, tokens.mean_advantages)
    return found | _zero_variance_groups(tokens, tokens.group)


def _correlate(tokens: ActionTokens, group: Array, advantages: Array) -> PendingSummary:
    """Compute the correlation of advantages and rewards within a group, mean over groups in which both vary.

    Sums are of differences from the group's means, because rewards may be large and alike. A group in which either does
    not vary beyond rounding has no correlation. A response is left out where either is not finite, such as one without
    action tokens, which has no mean advantage.
    """
    library, xp, responses = tokens.library, tokens.xp, len(group)
    pair = xp.stack([library.to_float64(advantages), library.to_float64(tokens.rollouts.rewards)])
    known = xp.isfinite(pair[0]) & xp.isfinite(pair[1])
    pair = xp.where(known, pair, 0.0)
    sizes = library.sum_by(known, group, responses)
    means = library.sum_by(pair, group, responses) / xp.where(sizes > 0, sizes, 1)
    differences = xp.where(known, pair - means[:, group], 0.0)
    products = xp.stack([differences[0] * differences[1], *(differences * differences), *(pair * pair)])
    together, *squares = library.sum_by(products, group, responses)
    varies = (squares[0] > ROUNDING * squares[2]) & (squares[1] > ROUNDING * squares[3])
    return moments(library, together / (squares[0] * squares[1]) ** 0.5, varies)


def _zero_variance_groups(tokens: ActionTokens, group: Array) -> dict[str, PendingSummary]:
    """Compute the share of groups whose rewards are all equal: their advantages are 0.

    A group counts where this rank holds two or more of its responses with a finite reward; the others are left out.
    """
    rewards, correct, library = tokens.rollouts.rewards, tokens.rollouts.is_correct, tokens.library
    is_finite = tokens.xp.isfinite(rewards)
    # Responses that are left out sort as a group of their own behind all others, whose sums are not read.
    responses = len(group)
    own = tokens.xp.where(is_finite, group, responses)
    order = library.argsort(own)
    # The rewards of a group are all equal where no neighbours differ.
    rewards, grouped = rewards[order], own[order]
    differs = (rewards[1:] != rewards[:-1]) & (grouped[1:] == grouped[:-1])
    differences = library.sum_by(differs, grouped[1:], responses + 1)[:responses]
    sizes = library.sum_by(is_finite, group, responses)
    correct_counts = library.sum_by(correct & is_finite, group, responses)
    is_counted = sizes > 1
    has_no_variance = is_counted & (differences == 0)
    groups = is_counted.sum()
    return {
        "reward/zero_std_frac": share(has_no_variance.sum(), groups),
        "reward/all_correct_frac": share((has_no_variance & (correct_counts == sizes)).sum(), groups),
        "reward/all_wrong_frac": share((has_no_variance & (correct_counts == 0)).sum(), groups),
    }
