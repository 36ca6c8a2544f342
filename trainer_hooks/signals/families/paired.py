"""Changes of the same tokens over one update: the least noisy early sign of drift that we know."""

import numpy as np

from trainer_hooks.probes.paired import Paired
from trainer_hooks.signals.summary_builders import PendingSummary, moments

__all__ = ["NAMES", "compute"]

NAMES = ("entropy/paired_delta", "displacement/self", "displacement/cross")


def compute(scores: Paired) -> dict[str, PendingSummary]:
    """Compute changes over an update, as means over action tokens, in nats a token.

    ``entropy/paired_delta`` = H(π_θ') − H(π_θ) over fresh responses. ``displacement/cross`` = ln π_θ' − ln π_θ over
    correct fresh responses, and ``displacement/self`` the same over correct responses that the update was about.
    """
    library, mask = scores.library, scores.mask
    fresh, correct = scores.fresh[:, None], scores.correct[:, None]
    logprobs, entropies = zip(scores.before, scores.after, strict=True)
    with np.errstate(all="ignore"):  # NaN and Inf are valid values here
        displacement = library.to_float64(logprobs[1]) - library.to_float64(logprobs[0])
        found = {
            "displacement/self": moments(library, displacement, mask & correct & ~fresh),
            "displacement/cross": moments(library, displacement, mask & correct & fresh),
        }
        if entropies[0] is not None and entropies[1] is not None:
            change = library.to_float64(entropies[1]) - library.to_float64(entropies[0])
            found["entropy/paired_delta"] = moments(library, change, mask & fresh)
    return found
