"""Rollouts in, signals out; one module a family. Names and definitions in docs/signals.md.

Each family is a function from `ActionTokens` to summaries that merge over ranks, and says which names it can give.
It is written once, for numpy on the host and torch on a device (`trainer_hooks.arrays`). A signal whose input is
missing, or that cannot say anything, is absent.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from trainer_hooks.arrays import HOST, ArrayLibrary, Pending
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.families import (
    displacement,
    entropy,
    finite,
    length,
    likelihood,
    mismatch,
    ratio,
    reward,
    similarity,
    text,
    tools,
)
from trainer_hooks.signals.reductions import PendingSummary
from trainer_hooks.wire import Summary

__all__ = ["NAMES", "Reduced", "fetch", "finished", "reduce", "summarise"]

FAMILIES: Mapping[Callable[[ActionTokens], dict[str, PendingSummary]], tuple[str, ...]] = {
    reward.reward: reward.NAMES,
    likelihood.likelihood: likelihood.NAMES,
    entropy.entropy: entropy.NAMES,
    displacement.displacement: displacement.NAMES,
    ratio.ratio: ratio.NAMES,
    mismatch.mismatch: mismatch.NAMES,
    length.length: length.NAMES,
    tools.tools: tools.NAMES,
    text.text: text.NAMES,
    similarity.similarity: similarity.NAMES,
    finite.finite: finite.NAMES,
}
NAMES = tuple(name for names in FAMILIES.values() for name in names)


class Reduced(NamedTuple):
    """A step's rollouts as the numbers that they come down to, which may still be on the device.

    Attributes:
        library: Where the numbers are to be fetched from.
        pending: What is refused, without a name, then summaries by name; each name is one of `NAMES`.
        capability: The level that the arrays made.
        extra: What else was asked for.
    """

    library: ArrayLibrary
    pending: tuple[tuple[str, PendingSummary], ...]
    capability: Literal["L2", "L3"]
    extra: tuple[Pending[Any], ...] = ()

    @property
    def parts(self) -> list[Pending[Any]]:
        """Give everything whose numbers are to be fetched."""
        return [*(summary for _, summary in self.pending), *self.extra]

    @property
    def nbytes(self) -> int:
        """Bytes held by the numbers, once they are fetched."""
        return sum(getattr(number, "nbytes", 8) for part in self.parts for number in part.numbers)

    def with_parts(self, parts: Sequence[Pending[Any]]) -> "Reduced":
        """Give the same, made of fetched numbers."""
        count = len(self.pending)
        names = (name for name, _ in self.pending)
        named = tuple(zip(names, parts[:count], strict=True))
        return self._replace(library=HOST, pending=named, extra=tuple(parts[count:]))

    def fetched(self) -> "Reduced":
        """Give the same, made of numbers in this process's memory, brought there with one copy where they are not."""
        return self if self.library.is_host else self.with_parts(fetch(self.library, self.parts))

    def finished(self) -> dict[str, Summary]:
        """Read the numbers, which are in this process's memory.

        Raises:
            RolloutsError: If the arrays contradict each other.
        """
        return finished(self.pending)


def reduce(rollouts: Rollouts, *extra: Callable[[ActionTokens], Pending[Any]]) -> Reduced:
    """Reduce to every signal that these rollouts allow, where the arrays are and without waiting for them.

    Args:
        rollouts: This rank's responses of the step.
        extra: Ask for more of the action tokens.

    Raises:
        RolloutsError: If arrays in this process's memory contradict each other.
    """
    # NaN, Inf and empty actions are ordinary here, and numpy would warn of each.
    with np.errstate(all="ignore"):
        rollouts.check()
        tokens = ActionTokens.of(rollouts)
        summaries = [item for family in FAMILIES for item in family(tokens).items()]
        more = tuple(ask(tokens) for ask in extra)
    refusals = (("", doubt) for doubt in rollouts.library.doubts)
    return Reduced(rollouts.library, (*refusals, *summaries), rollouts.capability, more)


def fetch(library: ArrayLibrary, parts: Sequence[Pending[Any]]) -> list[Pending[Any]]:
    """Give the same with their numbers in this process's memory, brought there with one copy."""
    numbers = iter(library.fetched([array for part in parts for array in part.numbers]))
    return [Pending(tuple(islice(numbers, len(part.numbers))), part.finish) for part in parts]


def finished(pending: Iterable[tuple[str, PendingSummary]]) -> dict[str, Summary]:
    """Read numbers in this process's memory; what was not observed is left out, and summaries of one name are merged.

    Raises:
        RolloutsError: If they say that arrays contradict each other.
    """
    summaries: dict[str, Summary] = {}
    parts = tuple(pending)
    numbers = iter(HOST.fetched([number for _, part in parts for number in part.numbers]))
    for name, part in parts:
        summary = part.finish(*islice(numbers, len(part.numbers)))
        if summary is not None:
            held = summaries.get(name)
            summaries[name] = summary if held is None else held.merged(summary)  # type: ignore[arg-type]
    return summaries


def summarise(rollouts: Rollouts) -> dict[str, Summary]:
    """Give every signal that these rollouts allow, as summaries that merge exactly over ranks.

    Args:
        rollouts: This rank's responses of the step.

    Returns:
        Summaries by signal name; each name is one of `NAMES`.

    Raises:
        RolloutsError: If the arrays contradict each other.
    """
    return reduce(rollouts).fetched().finished()
