"""Length of responses in action tokens."""

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import PendingSummary, bins, moments

__all__ = ["NAMES", "length"]

NAMES = ("length/mean", "length/p95", "length/truncated_frac")
# A million tokens in steps of one per cent.
LARGEST_LOG_LENGTH = 14.0
BINS = 1400


def length(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Give the mean and the 95th percentile, and the share cut at the limit where the trainer says which were.

    Where the mask leaves a whole response out, as TRL's does with truncated ones on demand, nobody says how long it is.
    """
    library, truncated = tokens.library, tokens.rollouts.truncated
    is_spoken = tokens.lengths > 0
    log_lengths = tokens.xp.log(library.wide(tokens.lengths.clip(1)))
    found = {
        "length/mean": moments(library, tokens.lengths, is_spoken),
        "length/p95": bins(
            library, log_lengths, is_spoken, low=0.0, high=LARGEST_LOG_LENGTH, count=BINS, quantile=0.95, scale="exp"
        ),
    }
    return found if truncated is None else found | {"length/truncated_frac": moments(library, truncated)}
