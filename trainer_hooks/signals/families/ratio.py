"""Likelihood ratios π_θ / π_old: upper tail, spread, effective sample size, clipping. Kept in log space."""

import math

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import (
    PendingSummary,
    bins,
    find_ratios,
    k3,
    largest,
    moments,
    only_if,
    share,
)

__all__ = ["NAMES", "compute"]

NAMES = (
    "ratio/max",
    "ratio/p999",
    "ratio/log_var",
    "ratio/ess_frac",
    "ratio/clip_frac",
    "ratio/clip_low_frac",
    "ratio/clip_high_frac",
    "kl/old",
)


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the signals of the token ratios; nothing on-policy, where the ratio is 1 by construction.

    ``ratio/ess_frac`` = (Σw)² / (n Σw²) with w the token ratios. ``kl/old`` is the k3 estimator of KL(π_old ‖ π_θ):
    mean of w − 1 − ln w. A token is clipped where min(w A, clip(w) A) takes the clipped branch: w > 1 + ε_high
    with A > 0, or w < 1 − ε_low with A < 0.
    """
    log_ratio, sums = tokens.log_ratio, tokens.log_ratio_sums
    if log_ratio is None or sums is None:
        return {}
    library, xp, where = tokens.library, tokens.xp, tokens.layout.where
    ratios = find_ratios(library, log_ratio)
    if not sums.are_all_known:
        ratios = xp.where(sums.known, ratios, math.nan)
    found = {
        "ratio/max": largest(library, log_ratio, None if sums.are_all_known else sums.known, scale="exp"),
        "ratio/p999": bins(library, log_ratio, where, low=-8.0, high=8.0, count=1024, quantile=0.999, scale="exp"),
        "ratio/log_var": sums.moments(None, "variance"),
        "ratio/ess_frac": moments(library, ratios, None, "ess_frac"),
        "kl/old": k3(library, ratios, log_ratio),
    }
    return only_if(tokens.library, tokens.is_off_policy, found | _clipped_shares(tokens, ratios, sums.known))


def _clipped_shares(tokens: ActionTokens, ratios: Array, known: Array) -> dict[str, PendingSummary]:
    advantages, count = tokens.advantages, tokens.library.count
    if tokens.rollouts.clip_range is None or advantages is None:
        return {}
    below, above = tokens.rollouts.clip_range
    known = known & tokens.xp.isfinite(advantages)
    lows = count(known & (ratios < 1 - below) & (advantages < 0))
    highs = count(known & (ratios > 1 + above) & (advantages > 0))
    tokens_known = count(known)
    return {
        "ratio/clip_frac": share(lows + highs, tokens_known),
        "ratio/clip_low_frac": share(lows, tokens_known),
        "ratio/clip_high_frac": share(highs, tokens_known),
    }
