"""Rollouts in, signals out; one module a family. Names and definitions in docs/signals.md.

Each family is a function from `ActionTokens` to summaries that merge over ranks, and says which names it can give.
It is written once, for numpy on the host and torch on a device (`trainer_hooks.arrays`). A signal whose input is
missing, or that cannot say anything, is absent.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from trainer_hooks.arrays import Array, ArrayLibrary, Pending
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals import (
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
from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import PendingSummary
from trainer_hooks.wire import Summary

__all__ = ["NAMES", "Fetched", "fetch", "reduce", "summarise"]

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


class Fetched(NamedTuple):
    """A step's signals, reduced on a device and fetched from there; made of few numbers, which are still to be read.

    Attributes:
        pending: What is refused, then summaries by name.
        capability: The level that the arrays made.
        extra: What else was asked for.
    """

    pending: list[tuple[str, PendingSummary]]
    capability: Literal["L2", "L3"]
    extra: Pending[Any] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held by the numbers."""
        extra = self.extra.numbers if self.extra else ()
        return sum(array.nbytes for array in (*extra, *(number for _, item in self.pending for number in item.numbers)))

    def finished(self) -> dict[str, Summary]:
        """Read the numbers.

        Raises:
            RolloutsError: If the arrays contradict each other.
        """
        found = {name: summary.finish(*summary.numbers) for name, summary in self.pending}
        return {name: summary for name, summary in found.items() if summary is not None}


def reduce(rollouts: Rollouts) -> list[tuple[str, PendingSummary]]:
    """Reduce to every signal that these rollouts allow, where the arrays are and without waiting for them.

    Args:
        rollouts: This rank's responses of the step.

    Returns:
        Summaries with their names, each one of `NAMES`, whose numbers are still to be fetched; before them, without a
        name, the refusals that only a device can decide.

    Raises:
        RolloutsError: If arrays in this process's memory contradict each other.
    """
    return _reduced(rollouts)[0]


def _reduced(rollouts: Rollouts) -> tuple[list[tuple[str, PendingSummary]], ActionTokens]:
    # NaN, Inf and empty actions are ordinary here, and numpy would warn of each.
    with np.errstate(all="ignore"):
        rollouts.check()
        tokens = ActionTokens.of(rollouts)
        summaries = [item for family in FAMILIES for item in family(tokens).items()]
    return [*(("", doubt) for doubt in rollouts.library.doubts), *summaries], tokens


def fetch(
    library: ArrayLibrary,
    rollouts: Rollouts | None,
    scalars: Mapping[str, Array],
    extra: Callable[[ActionTokens], Pending[Any]] | None = None,
) -> tuple[Fetched | None, dict[str, float]]:
    """Reduce rollouts, and bring what is left of them and scalars here with one copy.

    Args:
        library: Where they are.
        rollouts: This rank's responses of the step.
        scalars: Arrays of one element by name.
        extra: Asks for more of the action tokens.
    """
    pending: list[tuple[str, Pending[Any]]] = []
    if rollouts is not None:
        pending, tokens = _reduced(rollouts)
        if extra is not None:
            pending.append(("", extra(tokens)))
    numbers = iter(library.fetched([*scalars.values(), *(array for _, item in pending for array in item.numbers)]))
    found = {name: float(next(numbers)[0]) for name in scalars}
    if rollouts is None:
        return None, found
    here = [(name, item._replace(numbers=tuple(next(numbers) for _ in item.numbers))) for name, item in pending]
    return Fetched(here, rollouts.capability, here.pop()[1] if extra else None), found


def summarise(rollouts: Rollouts | Fetched) -> dict[str, Summary]:
    """Give every signal that these rollouts allow, as summaries that merge exactly over ranks.

    Args:
        rollouts: This rank's responses of the step.

    Returns:
        Summaries by signal name; each name is one of `NAMES`.

    Raises:
        RolloutsError: If the arrays contradict each other.
    """
    if isinstance(rollouts, Rollouts):
        fetched, _ = fetch(rollouts.library, rollouts, {})
        return summarise(fetched) if fetched is not None else {}
    return rollouts.finished()
