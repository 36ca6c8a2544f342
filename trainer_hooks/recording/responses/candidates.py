"""Gathers on a device the rows from which a step's sampled responses are selected, so that only those are fetched.

They contain every row that `selection.select_rows` would select from all rows of the step.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays import Array, Pending
from trainer_hooks.recording.responses.selection import Candidates, find_resembling_on_device, rank_rows
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.action_tokens.tokens import ActionTokens

__all__ = ["gather_candidates"]

ARRAYS = (
    "logprobs",
    "mask",
    "rewards",
    "old_logprobs",
    "sampler_logprobs",
    "entropies",
    "advantages",
    "group_ids",
    "token_ids",
    "correct",
    "truncated",
)
INTEGERS = frozenset({"group_ids", "token_ids"})


def gather_candidates(tokens: ActionTokens, count: int, drawn: Sequence[int]) -> Pending[Candidates]:
    """Gather candidates without waiting for the device.

    Args:
        tokens: The step's.
        count: Most responses of each kind.
        drawn: Rows drawn at random.
    """
    rollouts, xp = tokens.rollouts, tokens.xp
    rankings = rank_rows(tokens, count)
    rows = [ranking.rows for ranking in rankings.values()]
    if "displaced" in rankings and tokens.group is not None and rollouts.token_ids is not None:
        displaced = rankings["displaced"].rows
        rows += [
            find_resembling_on_device(tokens, tokens.group, displaced[place : place + 1])
            for place in range(len(displaced))
        ]
    picked = xp.concat(rows)
    names = [name for name in ARRAYS if getattr(rollouts, name) is not None]
    gathered = [_gather_rows(getattr(rollouts, name), picked, drawn, xp) for name in names]
    # Numbers are fetched as float64, which has no place for every integer, so the bits of integers are.
    gathered = [
        array.long().view(xp.float64) if name in INTEGERS else array
        for name, array in zip(names, gathered, strict=True)
    ]
    # A reference to the rollouts would keep their tensors on the device until `finish` is called.
    others = {name: getattr(rollouts, name) for name in ("texts", "vocabulary", "decode", "trained")}
    finish = partial(_assemble, others, names, [tuple(array.shape) for array in gathered], list(drawn))
    return Pending((picked, *gathered), finish)


def _gather_rows(array: Array, picked: Array, drawn: Sequence[int], xp: Any) -> Array:  # noqa: ANN401 - a module
    # Drawn rows are known on the host. Slices read them without sending numbers to the device, which would wait.
    return xp.concat([array[picked], *(array[row : row + 1] for row in drawn)])


def _assemble(
    others: dict[str, Any],
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    drawn: list[int],
    picked: NDArray[np.float64],
    *gathered: NDArray[np.float64],
) -> Candidates:
    """Build candidates on the host from the fetched rows, each row once, in the order of the step."""
    rows, first = np.unique(np.concatenate([picked.astype(np.int64), drawn]), return_index=True)
    arguments = {**others}
    for name, shape, array in zip(names, shapes, gathered, strict=True):
        unique = array.reshape(shape)[first]
        arguments[name] = unique.view(np.int64) if name in INTEGERS else unique
    if others["texts"] is not None:
        arguments["texts"] = [others["texts"][row] for row in rows]
    tokens = ActionTokens.of(Rollouts(**arguments, check=False))
    return Candidates(tokens, np.flatnonzero(np.isin(rows, drawn)).tolist())
