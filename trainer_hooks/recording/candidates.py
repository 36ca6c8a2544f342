"""Picks on a device the rows among which a step's sampled responses are, so that only those are fetched.

Every row that `trainer_hooks.recording.responses.choose` may choose from all is among them; it then chooses again, on
the host.
"""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays import Array, Pending
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.action_tokens import ActionTokens

__all__ = ["Candidates", "Pace", "candidates", "everything"]

ARRAYS = (
    "logprobs",
    "mask",
    "rewards",
    "old_logprobs",
    "entropies",
    "advantages",
    "group_ids",
    "token_ids",
    "correct",
    "truncated",
)
LARGEST = float(np.finfo(np.float64).max)
INTEGERS = frozenset({"group_ids", "token_ids"})


class Candidates(NamedTuple):
    """Responses of a step, on the host.

    Attributes:
        tokens: Theirs, in their order.
        ordinary: Which of them were drawn at random, for the random few; all unless given.
    """

    tokens: ActionTokens
    ordinary: list[int] | None = None


class Pace:
    """Says of which steps responses are sampled.

    Args:
        responses: Most of each kind; 0 samples none of any step.
        seconds: Least time between two of these steps; 0 samples all.
    """

    def __init__(self, responses: int, seconds: float) -> None:
        self._responses = responses
        self._seconds = seconds
        self._sampled_at = -inf

    def is_due(self, now: float) -> bool:
        """Whether the step of this time is one, in seconds since the epoch; a clock that is set back makes it one."""
        if not self._responses or 0 <= now - self._sampled_at < self._seconds:
            return False
        self._sampled_at = now
        return True


def everything(tokens: ActionTokens) -> Pending[Candidates]:
    """Give all responses of a step that is on the host."""
    return Pending((), partial(Candidates, tokens))


def candidates(tokens: ActionTokens, count: int, drawn: Sequence[int]) -> Pending[Candidates]:
    """Gather the candidates, without waiting for the device.

    Args:
        tokens: A step's.
        count: Most responses of each kind.
        drawn: Rows drawn at random.
    """
    rollouts, library, xp = tokens.rollouts, tokens.library, tokens.xp
    spoken = tokens.lengths > 0
    mean = tokens.logprob_sums.by_response / tokens.lengths
    # NaN is less likely than anything, and what has no action comes after all.
    known = xp.clip(mean, -LARGEST, LARGEST)
    likelihood = xp.where(spoken, xp.where(xp.isnan(mean), -np.inf, known), np.inf)
    rows = [library.order(likelihood)[:count], library.order(-tokens.lengths)[:count]]
    if tokens.log_ratio_sums is not None:
        change = tokens.log_ratio_sums.by_response / tokens.lengths
        displaced = library.order(~(spoken & (change < 0)), ~rollouts.correct, change)[:count]
        rows.append(displaced)
        if tokens.group is not None and rollouts.token_ids is not None:
            rows += [_resembling(tokens, tokens.group, displaced[place : place + 1]) for place in range(len(displaced))]
    picked = xp.concat(rows)
    # Numbers known here are not sent to the device, only what is there is asked for: slices do not wait.
    names = [name for name in ARRAYS if getattr(rollouts, name) is not None]
    gathered = [_gathered(getattr(rollouts, name), picked, drawn, xp) for name in names]
    # Not the rollouts themselves, whose tensors would stay on the device until somebody finishes.
    told = {name: getattr(rollouts, name) for name in ("texts", "vocabulary", "decode", "trained")}
    finish = partial(_assembled, told, names, [tuple(array.shape) for array in gathered], list(drawn))
    return Pending((picked, *gathered), finish)


def _gathered(array: Array, picked: Array, drawn: Sequence[int], xp: Any) -> Array:  # noqa: ANN401 - a module
    return xp.concat([array[picked], *(array[row : row + 1] for row in drawn)])


def _resembling(tokens: ActionTokens, group: Array, row: Array) -> Array:
    """Give the incorrect row of a row's group that shares the longest prefix, from the first action token on."""
    rollouts, xp = tokens.rollouts, tokens.xp
    token_ids: Array = rollouts.token_ids
    width = rollouts.mask.shape[1]
    places = tokens.library.places(rollouts.mask[:1])[None, :]
    ahead = xp.argmax(tokens.library.wide(rollouts.mask), axis=1)[:, None] + places
    last = width - 1 - xp.argmax(tokens.library.wide(xp.flip(rollouts.mask, (1,))), axis=1)[:, None]
    # Past the last action token a row has nothing, and no two rows have nothing alike.
    flat = tokens.library.integers(xp.clip(ahead, 0, width - 1) + (tokens.response.reshape(-1, width)[:, :1] * width))
    ids = token_ids.reshape(-1)[flat]
    differs = (ids != ids[row]) | (ahead > last) | (ahead[row] > last[row])
    shared = xp.where(differs.any(axis=1), xp.argmax(tokens.library.wide(differs), axis=1), width)
    is_rival = (group == group[row]) & ~rollouts.correct & (tokens.lengths > 0)
    return xp.argmax(xp.where(is_rival, shared, -1), axis=0).reshape(1)


def _assembled(
    told: dict[str, Any],
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    drawn: list[int],
    picked: NDArray[np.float64],
    *gathered: NDArray[np.float64],
) -> Candidates:
    rows, first = np.unique(np.concatenate([picked.astype(np.int64), drawn]), return_index=True)
    arguments = {**told}
    for name, shape, array in zip(names, shapes, gathered, strict=True):
        kept = array.reshape(shape)[first]
        arguments[name] = kept.astype(np.int64) if name in INTEGERS else kept
    if told["texts"] is not None:
        arguments["texts"] = [told["texts"][row] for row in rows]
    tokens = ActionTokens.of(Rollouts(**arguments, check=False))
    return Candidates(tokens, np.flatnonzero(np.isin(rows, drawn)).tolist())
