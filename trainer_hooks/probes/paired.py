"""The same tokens scored before and after an update. Computes no signal."""

from typing import TypeAlias

from numpy.typing import ArrayLike

from trainer_hooks.arrays import Array, ArrayLibrary, library_of
from trainer_hooks.arrays.checks import read_booleans, read_floats

__all__ = ["Paired", "Scores"]

Scores: TypeAlias = tuple[ArrayLike, ArrayLike | None]


class Paired:
    """Scores of this rank's responses before and after one update.

    Args:
        before: Log-probabilities and entropies before the update, each ``(B, T)``, nats; entropies may be None.
        after: Log-probabilities and entropies after the update, in the same form.
        mask: True on action tokens, shape ``(B, T)``.
        correct: Whether each response is correct, shape ``(B,)``.
        fresh: True on responses that the update did not train on, shape ``(B,)``: held out from it, or of a group whose
            rewards are all equal, which gives the policy loss no gradient. All responses unless given.
        library: Where the arrays are; determined by the log-probabilities unless given.

    Raises:
        RolloutsError: If shapes contradict each other. Values on a device are checked when they are logged.
    """

    __slots__ = ("after", "before", "correct", "fresh", "library", "mask")

    def __init__(
        self,
        before: Scores,
        after: Scores,
        *,
        mask: ArrayLike,
        correct: ArrayLike,
        fresh: ArrayLike | None = None,
        library: ArrayLibrary | None = None,
    ) -> None:
        self.library = library or library_of(before[0])
        logprobs = read_floats(self.library, "logprobs before", before[0], None, "")
        tokens = tuple(logprobs.shape)
        self.before = logprobs, self._entropies("before", before[1], tokens)
        self.after = (
            read_floats(self.library, "logprobs after", after[0], tokens, "those before"),
            self._entropies("after", after[1], tokens),
        )

        def read(name: str, value: ArrayLike, shape: tuple[int, ...], like: str) -> Array:
            return read_booleans(self.library, f"{name} of the paired scores", value, shape, like)

        self.mask = read("mask", mask, tokens, "logprobs")
        self.correct = read("correct", correct, tokens[:1], "one response")
        self.fresh = self.correct | True if fresh is None else read("fresh", fresh, tokens[:1], "one response")

    def _entropies(self, when: str, value: ArrayLike | None, tokens: tuple[int, ...]) -> Array | None:
        return None if value is None else read_floats(self.library, f"entropies {when}", value, tokens, "logprobs")
