"""Computes signals from rollouts, one module a family. docs/signals.md has their names and definitions.

Each family has a function from `ActionTokens` to summaries that merge over ranks, and a list of the names that it may
return. It is written once, for numpy on the host and torch on a device (`trainer_hooks.arrays`). A signal whose input
is missing, or that carries no information at this step, is absent.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from trainer_hooks.arrays import HOST, ArrayLibrary, Pending
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.families import (
    displacement,
    entropy,
    familiarity,
    finite,
    grounding,
    length,
    likelihood,
    mismatch,
    ratio,
    reward,
    similarity,
    text,
    tools,
)
from trainer_hooks.signals.families.familiarity import FamiliarTokens
from trainer_hooks.signals.summary_builders import PendingSummary
from trainer_hooks.wire import Summary, merge_summaries

__all__ = ["NAMES", "FamiliarTokens", "Reduced", "fetch", "finish_summaries", "reduce", "summarise"]

FAMILIES: Mapping[Callable[[ActionTokens], dict[str, PendingSummary]], tuple[str, ...]] = {
    reward.compute: reward.NAMES,
    likelihood.compute: likelihood.NAMES,
    entropy.compute: entropy.NAMES,
    displacement.compute: displacement.NAMES,
    ratio.compute: ratio.NAMES,
    mismatch.compute: mismatch.NAMES,
    length.compute: length.NAMES,
    tools.compute: tools.NAMES,
    grounding.compute: grounding.NAMES,
    text.compute: text.NAMES,
    similarity.compute: similarity.NAMES,
    finite.compute: finite.NAMES,
}
NAMES = (*(name for names in FAMILIES.values() for name in names), *familiarity.NAMES)


class Reduced(NamedTuple):
    """A step's rollouts, reduced to a few thousand numbers that may still be on the device.

    Attributes:
        library: Where the numbers are to be fetched from.
        pending: Checks of the arrays, which have an empty name, then summaries by name; each name is one of `NAMES`.
        capability: The capability level of the arrays.
        extra: The results of the further functions that `reduce` was given.
        text_bytes: Bytes of the texts that ``extra`` may hold.
    """

    library: ArrayLibrary
    pending: tuple[tuple[str, PendingSummary], ...]
    capability: Literal["L2", "L3"]
    extra: tuple[Pending[Any], ...] = ()
    text_bytes: int = 0

    @property
    def parts(self) -> list[Pending[Any]]:
        """Everything whose numbers are to be fetched."""
        return [*(summary for _, summary in self.pending), *self.extra]

    @property
    def nbytes(self) -> int:
        """Bytes held by the numbers, once they are fetched, and by the texts."""
        return self.text_bytes + sum(getattr(number, "nbytes", 8) for part in self.parts for number in part.numbers)

    def replace_parts(self, parts: Sequence[Pending[Any]]) -> "Reduced":
        """Return the same with fetched numbers."""
        count = len(self.pending)
        names = (name for name, _ in self.pending)
        named = tuple(zip(names, parts[:count], strict=True))
        return self._replace(library=HOST, pending=named, extra=tuple(parts[count:]))

    def fetch(self) -> "Reduced":
        """Return the same with all numbers in this process's memory; from a device they are fetched with one copy."""
        return self if self.library.is_host else self.replace_parts(fetch(self.library, self.parts))

    def finish(self) -> dict[str, Summary]:
        """Make summaries of the numbers, which must be in this process's memory.

        Raises:
            RolloutsError: If the arrays contradict each other.
        """
        return finish_summaries(self.pending)


def reduce(
    rollouts: Rollouts, *extra: Callable[[ActionTokens], Pending[Any]], familiar: FamiliarTokens | None = None
) -> Reduced:
    """Reduce rollouts to every signal that they allow, on the device of the arrays and without waiting for it.

    Args:
        rollouts: This rank's responses of the step.
        extra: Functions that compute more from the action tokens.
        familiar: The tokens of the first steps of this process, which it counts; None leaves its signals out.

    Raises:
        RolloutsError: If arrays in this process's memory contradict each other.
    """
    # NaN, Inf and empty actions are valid here, and numpy would warn of each.
    with np.errstate(all="ignore"):
        rollouts.check()
        tokens = ActionTokens.of(rollouts)
        families = [*FAMILIES, *([] if familiar is None else [familiar.compute])]
        summaries = [item for family in families for item in family(tokens).items()]
        more = tuple(compute(tokens) for compute in extra)
    checks = (("", check) for check in rollouts.library.deferred_checks)
    return Reduced(
        rollouts.library, (*checks, *summaries), rollouts.capability, more, rollouts.text_bytes if more else 0
    )


def fetch(library: ArrayLibrary, parts: Sequence[Pending[Any]]) -> list[Pending[Any]]:
    """Return the same with their numbers in this process's memory, fetched with one copy."""
    numbers = iter(library.fetch([array for part in parts for array in part.numbers]))
    return [Pending(tuple(islice(numbers, len(part.numbers))), part.finish) for part in parts]


def finish_summaries(pending: Iterable[tuple[str, PendingSummary]]) -> dict[str, Summary]:
    """Make summaries of numbers in this process's memory; merge those of one name and leave out what was not observed.

    Raises:
        RolloutsError: If a deferred check finds that arrays contradict each other.
    """
    parts = tuple(pending)
    numbers = iter(HOST.fetch([number for _, part in parts for number in part.numbers]))
    with np.errstate(all="ignore"):  # a ratio may be larger than any float64, and numpy would warn of it
        finished = [(name, part.finish(*islice(numbers, len(part.numbers)))) for name, part in parts]
        return merge_summaries((name, summary) for name, summary in finished if summary is not None)


def summarise(rollouts: Rollouts, *, familiar: FamiliarTokens | None = None) -> dict[str, Summary]:
    """Compute every signal that these rollouts allow, as summaries that merge exactly over ranks.

    Args:
        rollouts: This rank's responses of the step.
        familiar: The tokens of the first steps of this process, as for `reduce`.

    Returns:
        Summaries by signal name; each name is one of `NAMES`.

    Raises:
        RolloutsError: If the arrays contradict each other.
    """
    return reduce(rollouts, familiar=familiar).fetch().finish()
