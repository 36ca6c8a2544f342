"""Length of responses in action tokens."""

import numpy as np

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import bins, moments, observed
from trainer_hooks.wire import Summary

__all__ = ["NAMES", "length"]

NAMES = ("length/mean", "length/p95", "length/truncated_frac")
# A million tokens in steps of one per cent.
LARGEST_LOG_LENGTH = 14.0
BINS = 1400


def length(tokens: ActionTokens) -> dict[str, Summary]:
    """Give the mean and the 95th percentile, and the share cut at the limit where the trainer says which were."""
    truncated = tokens.rollouts.truncated
    log_lengths = np.log(np.maximum(tokens.lengths, 1))
    return observed(
        {
            "length/mean": moments(tokens.lengths),
            "length/p95": bins(log_lengths, low=0.0, high=LARGEST_LOG_LENGTH, count=BINS, quantile=0.95, scale="exp"),
            "length/truncated_frac": None if truncated is None else moments(truncated),
        }
    )
