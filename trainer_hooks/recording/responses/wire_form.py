"""Puts selected responses into wire form, without texts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.wire import Array, Response, ResponseKind

__all__ = ["TokenNumbers", "build_responses", "find_token_numbers"]

TokenNumbers: TypeAlias = Mapping[str, NDArray[Any]]
"""The numbers that are known of the N action tokens of a step, shape ``(N,)`` each, by the field of `Response`."""


def find_token_numbers(tokens: ActionTokens, rows: Sequence[int]) -> TokenNumbers:
    """Find which numbers of tokens are sent with the responses in ``rows``."""
    # On-policy no update lies between the two policies, and the displacement is not defined.
    is_displaced = tokens.log_ratio_sums is not None and tokens.is_off_policy
    known = {
        "logprobs": tokens.logprobs,
        "displacements": tokens.log_ratio if is_displaced else None,
        "entropies": tokens.entropies,
        "mismatches": tokens.mismatch,
        "advantages": tokens.advantages if _have_token_advantages(tokens, rows) else None,
    }
    return {name: values for name, values in known.items() if values is not None}


def build_responses(
    tokens: ActionTokens, selected: Mapping[int, list[ResponseKind]], numbers: TokenNumbers, limit: int
) -> list[Response]:
    """Put rows into wire form. Their token arrays are cut after ``limit`` tokens, which include feedback in between.

    All rows are built together, column by column, because a call of numpy costs more than the few numbers of a row.
    """
    rollouts, rows = tokens.rollouts, list(selected)
    changes = tokens.log_ratio_sums if "displacements" in numbers else None
    actions, counts, widths = _cut_actions(tokens, rows, limit)
    firsts = _spans(tokens, rows)[0].tolist()
    slices = [slice(first, first + count) for first, count in zip(firsts, counts, strict=True)]

    def of_rows(values: NDArray[Any] | None) -> Sequence[Any]:
        return [None] * len(rows) if values is None else values[rows].tolist()

    columns: dict[str, Iterable[Any]] = {
        "kinds": selected.values(),
        "reward": of_rows(rollouts.rewards),
        "correct": of_rows(rollouts.is_correct),
        "length": of_rows(tokens.lengths),
        "logprob": of_rows(tokens.logprob_sums.by_response),
        "actions": Array.from_parts("int32", actions),
        "displacement": of_rows(None if changes is None else changes.by_response),
        "trained": [None if rollouts.trained is None else bool(rollouts.trained)] * len(rows),
        "group": of_rows(rollouts.group_ids),
        "advantage": of_rows(tokens.mean_advantages),
        "truncated": of_rows(rollouts.truncated),
    }
    for name, values in numbers.items():
        columns[name] = Array.from_parts("float16", [values[part] for part in slices])
    ids = rollouts.token_ids
    if ids is not None:
        places = zip(rows, tokens.layout.spans[0, rows].tolist(), widths, strict=True)
        columns["token_ids"] = Array.from_parts(
            "int32", [ids[row, start : start + width] for row, start, width in places]
        )
    return [Response(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]


def _have_token_advantages(tokens: ActionTokens, rows: Sequence[int]) -> bool:
    """Whether the advantages of tokens differ within a row; else one advantage for each response is enough."""
    given, advantages = tokens.rollouts.advantages, tokens.advantages
    if given is None or advantages is None or given.ndim == 1:
        return False
    parts = (advantages[first:after] for first, after in _spans(tokens, rows).T.tolist())
    return any((part != part[0]).any() for part in parts)


def _spans(tokens: ActionTokens, rows: Sequence[int]) -> NDArray[np.int64]:
    """Return the first of the N tokens of each row, and the first after them, ``(2, rows)``."""
    ends = tokens.layout.ends[rows]
    return np.stack([ends - tokens.lengths[rows], ends])


def _cut_actions(
    tokens: ActionTokens, rows: Sequence[int], limit: int
) -> tuple[list[NDArray[np.int64]], list[int], list[int]]:
    """Return each row's actions up to the limit, how many tokens they hold, and where the last of them ends.

    An action is its first place and the place after its last, ``(A, 2)``, counted from the row's first action token.
    """
    layout, owner = tokens.layout, tokens.owner
    begins = layout.actions.take_first(layout.places) % layout.width - layout.spans[0][owner]
    actions = np.stack([begins, begins + layout.action_lengths.astype(np.int64)], axis=1).clip(max=limit)
    is_shown = begins < limit
    actions, owner = actions[is_shown], owner[is_shown]
    edges = owner.searchsorted(np.add.outer([0, 1], rows))
    counts = tokens.library.sum_by(actions[:, 1] - actions[:, 0], owner, len(tokens.lengths))
    parts = [actions[begin:end] for begin, end in edges.T.tolist()]
    return parts, counts[rows].astype(np.int64).tolist(), actions[edges[1] - 1, 1].tolist()
