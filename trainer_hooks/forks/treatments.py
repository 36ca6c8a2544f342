"""The treatments by name; each trainer has its own settings for them."""

from typing import Final

__all__ = ["CONTROL", "TREATMENTS"]

CONTROL: Final = "unchanged"
"""The fork with which every other fork is compared."""

TREATMENTS: Final = {
    CONTROL: "the run as it is",
    "half-rate": "half the learning rate, from here on",
    "tenth-rate": "a tenth of the learning rate, from here on",
    "llds": "the penalty on lost likelihood of correct responses (LLDS, eq. 5), λ = 0.1",
    "kl": "a KL penalty of weight 0.01 to the model that the run began with",
    "nthr": "smaller negative advantages on tokens that lower correct responses (NTHR)",
    "clip-higher": "ratios clipped above at 1.28, so that unlikely tokens may rise further",
}
"""The change of each treatment. A trainer leaves out treatments that it cannot apply or that are already in force."""
