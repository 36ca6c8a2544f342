"""What one update did to the very tokens that were scored before it: the least noisy early sign of drift there is."""

import numpy as np

from trainer_hooks.probes.paired import Paired
from trainer_hooks.signals.reductions import PendingSummary, moments

__all__ = ["NAMES", "paired"]

NAMES = ("entropy/paired_delta", "displacement/self", "displacement/cross")


def paired(scores: Paired) -> dict[str, PendingSummary]:
    """Give changes over an update, means over action tokens, nats a token.

    ``entropy/paired_delta`` = H(π_θ') − H(π_θ) over fresh responses; ``displacement/cross`` and ``displacement/self`` =
    ln π_θ' − ln π_θ over correct responses, fresh ones and those that the update was about.
    """
    library, mask = scores.library, scores.mask
    fresh, correct = scores.fresh[:, None], scores.correct[:, None]
    logprobs, entropies = zip(scores.before, scores.after, strict=True)
    with np.errstate(all="ignore"):  # NaN and Inf are ordinary here
        displacement = library.wide(logprobs[1]) - library.wide(logprobs[0])
        found = {
            "displacement/self": moments(library, displacement, mask & correct & ~fresh),
            "displacement/cross": moments(library, displacement, mask & correct & fresh),
        }
        if entropies[0] is not None and entropies[1] is not None:
            change = library.wide(entropies[1]) - library.wide(entropies[0])
            found["entropy/paired_delta"] = moments(library, change, mask & fresh)
    return found
