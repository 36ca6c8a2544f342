"""Sums of token values over each action of a response, from which most signals are computed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens.layout import ActionLayout
from trainer_hooks.signals.summary_builders import PendingSummary, Statistic, moments_of_sums

__all__ = ["ActionSums"]


@dataclass(frozen=True)
class ActionSums:
    """One number of each token, summed over each of the A actions.

    Attributes:
        layout: Where the actions are.
        values: The numbers, shape ``(N,)``, float64.
        known: Which of them count and are finite, shape ``(N,)``.
        finite: The numbers with 0 in place of those that are not known, shape ``(N,)``.
        are_all_known: Whether all are known, on the host; False on a device, where finding out would wait.
        table: Count, Σx and Σx² of each action's finite numbers, shape ``(3, A)``, float64.
    """

    layout: ActionLayout
    values: Array
    known: Array
    finite: Array
    are_all_known: bool
    table: Array

    @classmethod
    def of(cls, layout: ActionLayout, several: Sequence[Array]) -> list[Self]:
        """Sum several arrays of token values, each ``(N,)``, together, because on the host every pass costs."""
        xp, library, sum_actions = layout.xp, layout.library, layout.actions.sum
        values = library.to_float64(xp.stack(several))
        is_finite = xp.isfinite(values)
        known = is_finite if layout.where is None else is_finite & layout.where
        finite = library.keep_where(values, known)
        are_all_known = finite is values
        counts = xp.stack([layout.action_lengths] * len(several)) if are_all_known else sum_actions(known)
        tables = xp.stack([counts, sum_actions(finite), sum_actions(finite * finite)], axis=1)
        return [
            cls(layout, values[row], known[row], finite[row], are_all_known, tables[row]) for row in range(len(several))
        ]

    @cached_property
    def by_response(self) -> Array:
        """Sum of each response's numbers, finite or not, shape ``(B,)``, float64."""
        layout = self.layout
        whole = (
            self.table[1]
            if self.are_all_known
            else layout.actions.sum(layout.library.keep_where(self.values, layout.counted))
        )
        return layout.sum_by_response(whole)

    def moments(self, where: Array | None = None, statistic: Statistic = "mean") -> PendingSummary:
        """Return the moments over the tokens of all actions, or of the actions where ``where``, ``(A,)``, is True."""
        chosen = self.table if where is None else self.layout.xp.where(where, self.table, 0.0)
        return moments_of_sums(chosen.sum(axis=1), statistic)

    def by_action(self, prefix: str, where: Array | None = None) -> dict[str, PendingSummary]:
        """Return the moments of all first actions, all second actions, ..., or of some of them, ``(A,)``, by name."""
        # The actions that are not shown share a last column.
        layout, shown = self.layout, self.layout.actions_shown
        column = layout.order.clip(0, shown)
        if where is not None:
            column = layout.xp.where(where, column, shown)
        columns = layout.library.sum_by(self.table, column, shown + 1)
        return {f"{prefix}{index}": moments_of_sums(columns[:, index]) for index in range(shown)}
