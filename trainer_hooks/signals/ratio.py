"""Likelihood ratios π_θ / π_old: tail, spread, effective sample size, clipping. All in log space until shown."""

import numpy as np

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import bins, largest, moments, observed, share
from trainer_hooks.wire import Extreme, Moments, Summary

__all__ = ["NAMES", "ratio"]

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
# exp(300)² still fits a float64, and no ratio beyond it says more than that the run is dead.
LARGEST_LOG_RATIO = 300.0


def ratio(tokens: ActionTokens) -> dict[str, Summary]:
    """Give the signals of the token ratios; nothing on-policy, where the ratio is 1 by construction.

    ``ratio/ess_frac`` = (Σw)² / (n Σw²) with w the token ratios. ``kl/old`` is the k3 estimator of KL(π_old ‖ π_θ):
    mean of w − 1 − ln w. A token is clipped where min(w A, clip(w) A) takes the clipped branch: w > 1 + ε_high
    with A > 0, or w < 1 − ε_low with A < 0.
    """
    log_ratio = tokens.log_ratio
    if log_ratio is None:
        return {}
    ratios = np.exp(np.clip(log_ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
    ratios[~np.isfinite(log_ratio)] = np.nan
    top = largest(log_ratio)
    shown = None if top is None else Extreme(extreme=float(np.exp(top.extreme)))
    return observed(
        {
            "ratio/max": shown,
            "ratio/p999": bins(log_ratio, low=-8.0, high=8.0, count=1024, quantile=0.999, scale="exp"),
            "ratio/log_var": moments(log_ratio, "variance"),
            "ratio/ess_frac": moments(ratios, "ess_frac"),
            "kl/old": moments(ratios - 1 - log_ratio),
        }
        | _clipped(tokens, ratios)
    )


def _clipped(tokens: ActionTokens, ratios: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, Moments | None]:
    if tokens.rollouts.clip_range is None or tokens.advantages is None:
        return {}
    below, above = tokens.rollouts.clip_range
    low = int(np.count_nonzero((ratios < 1 - below) & (tokens.advantages < 0)))
    high = int(np.count_nonzero((ratios > 1 + above) & (tokens.advantages > 0)))
    known = int(np.count_nonzero(~np.isnan(ratios)))
    return {
        "ratio/clip_frac": share(low + high, known),
        "ratio/clip_low_frac": share(low, known),
        "ratio/clip_high_frac": share(high, known),
    }
