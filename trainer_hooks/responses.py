"""Picks the few responses of a step that say most, and puts their tokens in wire form.

Runs in the courier's thread, never in training's. Draws from a generator of its own, made anew for each record. Text
is sent only where the user turned it on, and then goes through the user's redaction first.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.wire import RESPONSE_KINDS, Array, Response, ResponseKind, encode

__all__ = ["ResponseSampler"]

# What a token costs: its id, and a half for each of ln π, displacement and entropy.
TOKEN_BYTES = 4 + 3 * 2
ENVELOPE_BYTES = 300  # names and numbers of one response


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSampler:
    """Samples a step's responses.

    Args:
        count: Most responses of each kind; 0 samples none.
        max_bytes: Most bytes of a step on this rank; long responses are cut behind first, then the last ones left out.
        texts: Whether texts may leave the process.
        redact: Given each text before it leaves, and gives what may be told. Where it changes anything, the token ids
            and token texts of that response stay here too: they say the same.
        on_loss: Told of each text that was left out because ``redact`` raised.
    """

    count: int
    max_bytes: int
    texts: bool = False
    redact: Callable[[str], str] | None = None
    on_loss: Callable[[str], None] = lambda _: None

    def sample(self, rollouts: Rollouts, *, seed: str, ordinary: Sequence[int] | None = None) -> list[msgspec.Raw]:
        """Give the encoded responses, at most ``max_bytes`` together, in the order of `RESPONSE_KINDS`.

        Args:
            rollouts: This rank's responses of the step, or all that may be chosen.
            seed: Of the random few.
            ordinary: Rows to draw the random few from; all unless given.
        """
        if not self.count:
            return []
        tokens = ActionTokens.of(rollouts)
        with np.errstate(all="ignore"):  # NaN and Inf are ordinary here, and float16 may overflow
            chosen = choose(tokens, self.count, random.Random(seed), ordinary)  # noqa: S311 - no secret
            limit = self._limit(tokens, list(chosen))
            encoded = self._encoded(tokens, chosen, limit)
            while sum(map(len, encoded)) > self.max_bytes and limit > 1:  # texts cost what nobody can tell beforehand
                limit //= 2
                encoded = self._encoded(tokens, chosen, limit)
        fits = np.cumsum([len(body) for body in encoded]) <= self.max_bytes
        return [msgspec.Raw(body) for body, does_fit in zip(encoded, fits, strict=True) if does_fit]

    def _encoded(self, tokens: ActionTokens, chosen: Mapping[int, list[ResponseKind]], limit: int) -> list[bytes]:
        return [
            encode(self._told(_packed(tokens, row, kinds, limit), tokens.rollouts, row, limit))
            for row, kinds in chosen.items()
        ]

    def _limit(self, tokens: ActionTokens, rows: Sequence[int]) -> int:
        """Give the number of tokens at which to cut, such that short responses leave their share to longer ones."""
        left = (self.max_bytes - ENVELOPE_BYTES * len(rows)) // TOKEN_BYTES
        lengths = sorted(_span(tokens.rollouts.mask[row])[1] for row in rows)
        for place, length in enumerate(lengths):
            share = left // (len(lengths) - place)
            if length > share:
                return max(1, share)
            left -= length
        return max(lengths, default=1)

    def _told(self, response: Response, rollouts: Rollouts, row: int, limit: int) -> Response:
        """Add the texts that may be told, and take away what would tell more than them."""
        if not self.texts:
            return response
        text = None if rollouts.texts is None else rollouts.texts[row]
        pieces = _pieces(rollouts.vocabulary, response.token_ids)
        if self.redact is not None:
            whole = "".join(pieces or ()) if text is None else text
            told = self._redacted(whole)
            if told != whole:
                text, pieces, response = told, None, msgspec.structs.replace(response, token_ids=None)
        return msgspec.structs.replace(response, text=None if text is None else text[: 6 * limit], pieces=pieces)

    def _redacted(self, text: str) -> str | None:
        try:
            return str(self.redact(text)) if self.redact is not None else text
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self.on_loss(f"redact raised {type(error).__name__}: {error}; the text was left out")
            return None


def choose(
    tokens: ActionTokens, count: int, generator: random.Random, ordinary: Sequence[int] | None = None
) -> dict[int, list[ResponseKind]]:
    """Choose rows, each with what it was chosen for.

    - displaced: the likelihood fell most, by the mean of ln π_θ − ln π_old over action tokens; correct ones first.
    - resembling: for each displaced correct one, the incorrect one of its group that shares the longest prefix.
    - unlikely: lowest mean ln π_θ; what is not finite comes first.
    - longest: most action tokens.
    - random: drawn from all, or from ``ordinary``, so that the others can be seen against the ordinary.

    Responses without an action are never chosen.
    """
    rollouts = tokens.rollouts
    spoken = np.flatnonzero(tokens.lengths)
    lengths = tokens.lengths[spoken]
    drawable = [row for row in spoken.tolist() if ordinary is None or row in ordinary]
    likelihood = np.nan_to_num(tokens.per_response(tokens.logprobs)[spoken] / lengths, nan=-np.inf)
    by_kind: dict[ResponseKind, NDArray[np.intp]] = {
        "unlikely": spoken[np.argsort(likelihood, kind="stable")[:count]],
        "longest": spoken[np.argsort(-lengths, kind="stable")[:count]],
        "random": np.array(generator.sample(drawable, min(count, len(drawable))), dtype=np.intp),
    }
    log_ratio = _log_ratio(tokens)
    if log_ratio is not None:
        change = tokens.per_response(log_ratio)[spoken] / lengths
        fell = change < 0
        order = np.lexsort((change[fell], ~rollouts.correct[spoken][fell]))
        by_kind["displaced"] = displaced = spoken[fell][order][:count]
        by_kind["resembling"] = _resembling(rollouts, [row for row in displaced if rollouts.correct[row]])
    chosen: dict[int, list[ResponseKind]] = {}
    for kind in RESPONSE_KINDS:
        for row in by_kind.get(kind, ()):
            chosen.setdefault(int(row), []).append(kind)
    return chosen


def _log_ratio(tokens: ActionTokens) -> NDArray[np.float64] | None:
    """Give ln π_θ − ln π_old of each token; None where no update lies between the two."""
    log_ratio: NDArray[np.float64] | None = tokens.log_ratio
    return log_ratio if log_ratio is not None and tokens.is_off_policy else None


def _resembling(rollouts: Rollouts, displaced: Sequence[int]) -> NDArray[np.intp]:
    """Give for each row the incorrect row of its group that shares the longest prefix; none without ids or groups."""
    ids, groups = rollouts.token_ids, rollouts.group_ids
    found: dict[int, None] = {}
    if ids is not None and groups is not None:
        for row in displaced:
            own = _ids(ids[row], rollouts.mask[row])
            rivals = np.flatnonzero((groups == groups[row]) & ~rollouts.correct & rollouts.mask.any(axis=1))
            shared = [_shared_prefix(own, _ids(ids[rival], rollouts.mask[rival])) for rival in rivals]
            if shared:
                found[int(rivals[int(np.argmax(shared))])] = None
    return np.array(list(found), dtype=np.intp)


def _shared_prefix(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    both = min(len(first), len(second))
    differs = np.flatnonzero(first[:both] != second[:both])
    return int(differs[0]) if differs.size else both


def _span(mask: NDArray[np.bool_]) -> tuple[int, int]:
    """Give the first action token's place and the number of tokens to the last, feedback between included."""
    places = np.flatnonzero(mask)
    return int(places[0]), int(places[-1] - places[0] + 1)


def _ids(ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    start, length = _span(mask)
    return ids[start : start + length]


def _packed(tokens: ActionTokens, row: int, kinds: list[ResponseKind], limit: int) -> Response:
    """Put one row in wire form, its token arrays cut after ``limit`` tokens."""
    rollouts = tokens.rollouts
    start, span = _span(rollouts.mask[row])
    mask = rollouts.mask[row, start : start + min(span, limit)]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    actions = edges.reshape(-1, 2)
    kept = slice(start, start + int(actions[-1, 1]))
    spoken = int(mask.sum())
    logprobs = _own(rollouts, rollouts.logprobs, row).astype(np.float64)
    changes = None if _log_ratio(tokens) is None else logprobs - _own(rollouts, rollouts.old_logprobs, row)
    advantages = None if rollouts.advantages is None else _own(rollouts, rollouts.advantages, row)
    entropies = None if rollouts.entropies is None else _own(rollouts, rollouts.entropies, row)
    return Response(
        kinds=kinds,
        reward=float(rollouts.rewards[row]),
        correct=bool(rollouts.correct[row]),
        length=int(tokens.lengths[row]),
        logprob=float(logprobs.sum()),
        actions=Array.from_numpy(actions.astype(np.int32)),
        logprobs=_half(logprobs[:spoken]),
        displacement=None if changes is None else float(changes.sum()),
        displacements=None if changes is None else _half(changes[:spoken]),
        trained=rollouts.trained,
        entropies=None if entropies is None else _half(entropies[:spoken]),
        token_ids=None
        if rollouts.token_ids is None
        else Array.from_numpy(rollouts.token_ids[row, kept].astype(np.int32)),
        group=None if rollouts.group_ids is None else int(rollouts.group_ids[row]),
        advantage=None if advantages is None else float(advantages.astype(np.float64).mean()),
        truncated=None if rollouts.truncated is None else bool(rollouts.truncated[row]),
    )


def _own(rollouts: Rollouts, array: Any, row: int) -> NDArray[Any]:  # noqa: ANN401 - checked by the caller
    """Give what an array holds of a row: of ``(B, T)`` its action tokens, of ``(B,)`` its number."""
    own: NDArray[Any] = array[row : row + 1] if array.ndim == 1 else array[row][rollouts.mask[row]]
    return own


def _half(values: NDArray[Any]) -> Array:
    return Array.from_numpy(values.astype(np.float16))


def _pieces(vocabulary: Sequence[str] | None, ids: Array | None) -> list[str] | None:
    """Give the text of each token; empty where the vocabulary does not know it."""
    if vocabulary is None or ids is None:
        return None
    size = len(vocabulary)
    return [str(vocabulary[number]) if 0 <= number < size else "" for number in ids.to_numpy().tolist()]
