"""What numbers of action tokens come to in each action: most signals are sums of these few."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from trainer_hooks.arrays import Array
from trainer_hooks.signals.reductions import PendingSummary, Statistic, added_moments

if TYPE_CHECKING:
    from trainer_hooks.signals.action_tokens import ActionTokens

__all__ = ["ActionSums"]


@dataclass(frozen=True)
class ActionSums:
    """What a number of each action token comes to in each of the A actions.

    Attributes:
        tokens: The tokens; a proxy where they hold these sums, or their arrays would wait for the garbage collector.
        values: Their numbers, shape ``(N,)``, float64.
        known: Which of them count and are finite, shape ``(N,)``.
        finite: The numbers with 0 in place of those that are not known, shape ``(N,)``.
        are_all_known: Whether all are, on the host; on a device nobody can say.
        table: Count, Σx and Σx² of each action's finite numbers, shape ``(3, A)``, float64.
    """

    tokens: "ActionTokens"
    values: Array
    known: Array
    finite: Array
    are_all_known: bool
    table: Array

    @classmethod
    def of(cls, tokens: "ActionTokens", several: Sequence[Array]) -> list[Self]:
        """Add several numbers of each token up, each ``(N,)``: together, because on the host every pass costs."""
        xp, library, added = tokens.xp, tokens.library, tokens.actions.added
        values = library.wide(xp.stack(several))
        is_finite = xp.isfinite(values)
        known = is_finite if tokens.where is None else is_finite & tokens.where
        finite = library.kept(values, known)
        are_all_known = finite is values
        counts = xp.stack([tokens.action_lengths] * len(several)) if are_all_known else added(known)
        tables = xp.stack([counts, added(finite), added(finite * finite)], axis=1)
        return [
            cls(tokens, values[row], known[row], finite[row], are_all_known, tables[row]) for row in range(len(several))
        ]

    @cached_property
    def by_response(self) -> Array:
        """Sum of each response's numbers, finite or not, shape ``(B,)``, float64."""
        library, tokens = self.tokens.library, self.tokens
        whole = self.table[1] if self.are_all_known else tokens.actions.added(library.kept(self.values, tokens.counted))
        return library.added(whole, tokens.owner, len(tokens.lengths))

    def moments(self, where: Array | None = None, statistic: Statistic = "mean") -> PendingSummary:
        """Give the moments of all actions, or of some, ``(A,)``."""
        chosen = self.table if where is None else self.tokens.xp.where(where, self.table, 0.0)
        return added_moments(chosen.sum(axis=1), statistic)

    def by_action(self, prefix: str, where: Array | None = None) -> dict[str, PendingSummary]:
        """Give the moments of the first, second, ... action of all responses, or of some actions, ``(A,)``, by name."""
        # Those that are not shown share a last column.
        shown = self.tokens.actions_shown
        column = self.tokens.order.clip(0, shown)
        if where is not None:
            column = self.tokens.xp.where(where, column, shown)
        columns = self.tokens.library.added(self.table, column, shown + 1)
        return {f"{prefix}{index}": added_moments(columns[:, index]) for index in range(shown)}
