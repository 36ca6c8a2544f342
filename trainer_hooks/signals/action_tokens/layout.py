"""The layout of the actions of a step, without values: the response that owns each, and its order in that response."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from trainer_hooks.arrays import Array, ArrayLibrary, Stretches

__all__ = ["ACTIONS_SHOWN", "ActionLayout"]

# Tool-use runs take two to five actions; later ones are too rare at a step for a mean.
ACTIONS_SHOWN = 8


@dataclass(frozen=True)
class ActionLayout:
    """The tokens of B responses, laid end to end: N tokens, of which those that count are action tokens.

    On the host, N counts action tokens only. On a device it is B·T, because leaving the other tokens out would wait for
    the device. So code that reads token values has to apply `where`.

    Attributes:
        library: Where the arrays are.
        width: T, the number of tokens in a row.
        places: Place of each token in the flattened ``(B, T)`` arrays, ascending, shape ``(N,)``.
        counted: Whether each is an action token, shape ``(N,)``.
        response: Response of each token, shape ``(N,)``.
        begins: Whether an action begins at each, shape ``(N,)``.
        lengths: Number of action tokens of each response, shape ``(B,)``.
    """

    library: ArrayLibrary
    width: int
    places: Array
    counted: Array
    response: Array
    begins: Array
    lengths: Array

    @classmethod
    def of(cls, mask: Array, library: ArrayLibrary) -> Self:
        """Find the actions: contiguous runs of True in each row of a mask, ``(B, T)``."""
        begins = library.xp.concat([mask[:, :1], mask[:, 1:] & ~mask[:, :-1]], axis=1)
        places = library.select_places(mask)
        return cls(
            library=library,
            width=mask.shape[1],
            places=places,
            counted=mask.reshape(-1)[places],
            response=places // mask.shape[1],
            begins=begins.reshape(-1)[places],
            lengths=mask.sum(axis=1),
        )

    @property
    def xp(self) -> Any:  # noqa: ANN401 - a module
        """The library's own module, numpy or torch."""
        return self.library.xp

    @property
    def where(self) -> Array | None:
        """Which tokens count, shape ``(N,)``; None if all do, so that the host saves a pass over them."""
        return None if self.library.is_host else self.counted

    @cached_property
    def actions(self) -> Stretches:
        """The A actions of the step, over which values of tokens can be summed."""
        return self.library.find_runs(self.begins)

    @cached_property
    def owner(self) -> Array:
        """Response of each action, shape ``(A,)``."""
        return self.actions.take_first(self.response)

    @cached_property
    def action_lengths(self) -> Array:
        """Number of tokens of each action, shape ``(A,)``, float64."""
        return self.actions.sum(self.counted)

    @cached_property
    def order(self) -> Array:
        """Index of each action in its response, counted from 0, shape ``(A,)``."""
        actions = self.library.to_integers(self.sum_by_response(self.action_lengths > 0))
        before = self.xp.cumsum(actions, axis=0) - actions
        return (self.xp.cumsum(self.xp.ones_like(self.owner), axis=0) - 1 - before[self.owner]).clip(0)

    @cached_property
    def actions_shown(self) -> int:
        """How many actions of a response have signals of their own; on the host, no more than there are."""
        if not self.library.is_host or not len(self.order):
            return ACTIONS_SHOWN
        return min(int(self.order.max()) + 1, ACTIONS_SHOWN)

    @cached_property
    def ends(self) -> Array:
        """Where each response's tokens end among the N, on the host, shape ``(B,)``; not defined on a device."""
        return self.xp.cumsum(self.lengths, axis=0)

    @cached_property
    def spans(self) -> Array:
        """Place of each response's first action token in its row, and the place after its last, on the host.

        Shape ``(2, B)``; 0 where a response has no action token.
        """
        has_action = self.lengths > 0
        after = self.ends[has_action]
        spans = np.zeros((2, len(self.ends)), np.int64)
        spans[0, has_action] = self.places[after - self.lengths[has_action]] % self.width
        spans[1, has_action] = self.places[after - 1] % self.width + 1
        return spans

    def sum_by_response(self, values: Array) -> Array:
        """Sum values of actions, ``(..., A)``, over each response, ``(..., B)``, float64."""
        return self.library.sum_by(values, self.owner, len(self.lengths))
