"""The arguments of a step with large token arrays."""

import numpy as np


def arguments(responses=64, tokens=512, **changes):
    """Return a step with large token arrays and small other arrays."""
    logprobs = -np.ones((responses, tokens), dtype=np.float32)
    return {"logprobs": logprobs, "mask": logprobs < 0, "rewards": np.ones(responses)} | changes
