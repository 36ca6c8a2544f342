"""Numbers that a trainer reported for tokens, beside the same numbers computed again. Computes no signal."""

from numpy.typing import ArrayLike

from trainer_hooks.arrays import ArrayLibrary, library_of
from trainer_hooks.arrays.checks import read_booleans, read_floats
from trainer_hooks.probes.paired import Scores

__all__ = ["Recomputed"]


class Recomputed:
    """A trainer's numbers for some responses, and the same numbers from another computation under the same weights.

    Args:
        reported: Log-probabilities and entropies that the trainer has used, each ``(B, T)``, nats; entropies may be
            None.
        again: The same computed again, in the same form.
        mask: True on the tokens that the trainer counts as the policy's, shape ``(B, T)``.
        expected_mask: The mask that follows from the tokens, shape ``(B, T)``; None where it cannot be derived. A
            response whose ``mask`` is False everywhere is not compared with it, because trainers leave whole responses
            out on purpose.
        library: Where the arrays are; determined by the reported log-probabilities unless given.

    Raises:
        RolloutsError: If shapes contradict each other. Values on a device are checked when they are logged.
    """

    __slots__ = ("again", "expected_mask", "library", "mask", "reported")

    def __init__(
        self,
        reported: Scores,
        again: Scores,
        *,
        mask: ArrayLike,
        expected_mask: ArrayLike | None = None,
        library: ArrayLibrary | None = None,
    ) -> None:
        self.library = library or library_of(reported[0])
        logprobs = read_floats(self.library, "reported logprobs", reported[0], None, "")
        tokens = tuple(logprobs.shape)

        def read(name: str, value: ArrayLike | None) -> ArrayLike | None:
            return None if value is None else read_floats(self.library, name, value, tokens, "reported logprobs")

        self.reported = logprobs, read("reported entropies", reported[1])
        self.again = read("recomputed logprobs", again[0]), read("recomputed entropies", again[1])
        self.mask = read_booleans(self.library, "mask of the reported scores", mask, tokens, "reported logprobs")
        self.expected_mask = (
            None
            if expected_mask is None
            else read_booleans(self.library, "expected mask", expected_mask, tokens, "reported logprobs")
        )
