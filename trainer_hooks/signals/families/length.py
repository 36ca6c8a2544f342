"""Length of responses in action tokens."""

from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, bins, moments

__all__ = ["NAMES", "compute"]

NAMES = ("length/mean", "length/p95", "length/truncated_frac")
# ln of 1.2 million tokens; 1400 bins make a bin one per cent wide.
LARGEST_LOG_LENGTH = 14.0
BINS = 1400


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the mean, the 95th percentile, and the share cut at the limit where the trainer says which were cut.

    A response that the mask leaves out as a whole, as TRL's can do with truncated ones, has no known length.
    """
    library, truncated = tokens.library, tokens.rollouts.truncated
    has_action = tokens.lengths > 0
    log_lengths = tokens.xp.log(library.to_float64(tokens.lengths.clip(1)))
    found = {
        "length/mean": moments(library, tokens.lengths, has_action),
        "length/p95": bins(
            library, log_lengths, has_action, low=0.0, high=LARGEST_LOG_LENGTH, count=BINS, quantile=0.95, scale="exp"
        ),
    }
    return found if truncated is None else found | {"length/truncated_frac": moments(library, truncated)}
