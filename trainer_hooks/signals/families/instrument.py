"""The distance between what a trainer reports for tokens and what a second computation gives."""

import numpy as np

from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.signals.summary_builders import PendingSummary, largest, moments

__all__ = ["NAMES", "compute"]

NAMES = ("instrument/logprob_abs", "instrument/logprob_max", "instrument/entropy_abs", "instrument/mask_frac")


def compute(scores: Recomputed) -> dict[str, PendingSummary]:
    """Compute the gaps of log-probability and entropy in nats, and the share of tokens whose mask is another.

    ``instrument/logprob_abs`` and ``instrument/logprob_max`` are mean and largest |ln π reported − ln π recomputed|
    over the policy's tokens, ``instrument/entropy_abs`` is the mean |H reported − H recomputed|.
    ``instrument/mask_frac`` is the share of tokens in exactly one of the two masks, of the tokens in either.
    """
    library, mask = scores.library, scores.mask
    with np.errstate(all="ignore"):  # NaN and Inf are valid values here
        gap = abs(library.to_float64(scores.reported[0]) - library.to_float64(scores.again[0]))
        found = {
            "instrument/logprob_abs": moments(library, gap, mask),
            "instrument/logprob_max": largest(library, gap, mask),
        }
        if scores.reported[1] is not None and scores.again[1] is not None:
            apart = abs(library.to_float64(scores.reported[1]) - library.to_float64(scores.again[1]))
            found["instrument/entropy_abs"] = moments(library, apart, mask)
    expected = scores.expected_mask
    if expected is not None:
        is_compared = (mask | expected) & mask.any(1)[:, None]
        found["instrument/mask_frac"] = moments(library, library.to_float64(mask ^ expected), is_compared)
    return found
