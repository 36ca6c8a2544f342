"""Picks the few responses of a step that say most, and puts their tokens in wire form.

Runs in the courier's thread, never in training's. Draws from a generator of its own, made anew for each record. Text
is sent only where the user turned it on, and then goes through the user's redaction first.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.action_sums import ActionSums
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
        redact: Given the text of each response, and gives what may be told. Where it changes anything, or there is no
            text to give it, the token ids and token texts of that response stay here too: they say the same.
        on_loss: Told of each text that was left out because ``redact`` or the decoding of token ids raised.
    """

    count: int
    max_bytes: int
    texts: bool = False
    redact: Callable[[str], str] | None = None
    on_loss: Callable[[str], None] = lambda _: None

    def sample(self, tokens: ActionTokens, *, seed: str, ordinary: Sequence[int] | None = None) -> list[msgspec.Raw]:
        """Give the encoded responses, at most ``max_bytes`` together, in the order of `RESPONSE_KINDS`.

        Args:
            tokens: This rank's responses of the step, or all that may be chosen, on the host.
            seed: Of the random few.
            ordinary: Rows to draw the random few from; all unless given.
        """
        if not self.count or not tokens.lengths.any():
            return []
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
        packed = zip(chosen, _packed(tokens, chosen, limit), strict=True)
        return [encode(self._told(response, tokens, row, limit)) for row, response in packed]

    def _limit(self, tokens: ActionTokens, rows: Sequence[int]) -> int:
        """Give the number of tokens at which to cut, such that short responses leave their share to longer ones."""
        left = (self.max_bytes - ENVELOPE_BYTES * len(rows)) // TOKEN_BYTES
        begins, ends = tokens.spans
        lengths = sorted((ends - begins)[rows].tolist())
        for place, length in enumerate(lengths):
            share = left // (len(lengths) - place)
            if length > share:
                return max(1, share)
            left -= length
        return max(lengths, default=1)

    def _told(self, response: Response, tokens: ActionTokens, row: int, limit: int) -> Response:
        """Add the texts that may be told, and take away what would tell more than them."""
        if not self.texts and self.redact is None:
            return response
        rollouts, (begins, ends) = tokens.rollouts, tokens.spans
        # Uncut: what a cut leaves of a secret may look like none.
        ids = None if rollouts.token_ids is None else rollouts.token_ids[row, begins[row] : ends[row]].tolist()
        pieces = _pieces(rollouts.vocabulary, ids)
        text = self._text(rollouts, row, ids)
        if self.redact is not None:
            whole = "".join(pieces or ()) if text is None else text
            told = self._made("redact", self.redact, whole) if whole else None
            if told != whole:
                text, pieces, response = told, None, msgspec.structs.replace(response, token_ids=None)
        if not self.texts:
            return response
        if pieces is not None and response.token_ids is not None:
            pieces = pieces[: response.token_ids.shape[0]]
        return msgspec.structs.replace(response, text=None if text is None else text[: 6 * limit], pieces=pieces)

    def _text(self, rollouts: Rollouts, row: int, ids: list[int] | None) -> str | None:
        if rollouts.texts is not None:
            return rollouts.texts[row]
        if rollouts.decode is None or ids is None:
            return None
        return self._made("decode", rollouts.decode, ids)

    def _made(self, name: str, make: Callable[[Any], str], given: object) -> str | None:
        try:
            return str(make(given))
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self.on_loss(f"{name} raised {type(error).__name__}: {error}; the text was left out")
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
    drawable = spoken.tolist() if ordinary is None else [row for row in spoken.tolist() if row in ordinary]
    mean = tokens.logprob_sums.by_response[spoken] / lengths
    likelihood = np.where(np.isnan(mean), -np.inf, mean)
    by_kind: dict[ResponseKind, NDArray[np.intp]] = {
        "unlikely": spoken[np.argsort(likelihood, kind="stable")[:count]],
        "longest": spoken[np.argsort(-lengths, kind="stable")[:count]],
        "random": np.array(generator.sample(drawable, min(count, len(drawable))), dtype=np.intp),
    }
    changes = _changes(tokens)
    if changes is not None:
        change = changes.by_response[spoken] / lengths
        fell = change < 0
        order = np.lexsort((change[fell], ~rollouts.correct[spoken][fell]))
        by_kind["displaced"] = displaced = spoken[fell][order][:count]
        by_kind["resembling"] = _resembling(tokens, displaced[rollouts.correct[displaced]])
    chosen: dict[int, list[ResponseKind]] = {}
    for kind in RESPONSE_KINDS:
        for row in by_kind.get(kind, ()):
            chosen.setdefault(int(row), []).append(kind)
    return chosen


def _changes(tokens: ActionTokens) -> ActionSums | None:
    """Give ln π_θ − ln π_old; None where no update lies between the two."""
    return tokens.log_ratio_sums if tokens.log_ratio_sums is not None and tokens.is_off_policy else None


def _resembling(tokens: ActionTokens, displaced: NDArray[np.intp]) -> NDArray[np.intp]:
    """Give for each row the incorrect row of its group that shares the longest prefix; none without ids or groups."""
    ids, groups = tokens.rollouts.token_ids, tokens.rollouts.group_ids
    found: dict[int, None] = {}
    if ids is not None and groups is not None and len(displaced):
        begins, ends = tokens.spans
        is_rival = ~tokens.rollouts.correct & (tokens.lengths > 0)
        for row in displaced:
            own = ids[row, begins[row] : ends[row]]
            rivals = np.flatnonzero(is_rival & (groups == groups[row]))
            shared = [_shared_prefix(own, ids[rival, begins[rival] : ends[rival]]) for rival in rivals]
            if shared:
                found[int(rivals[shared.index(max(shared))])] = None
    return np.array(list(found), dtype=np.intp)


def _shared_prefix(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    both = min(len(first), len(second))
    differs = first[:both] != second[:both]
    place = int(differs.argmax())
    return place if differs[place] else both


def _packed(tokens: ActionTokens, chosen: Mapping[int, list[ResponseKind]], limit: int) -> list[Response]:
    """Put rows in wire form, their token arrays cut after ``limit`` tokens, feedback between included.

    All rows together, column by column: a call of numpy costs more than the few numbers of a row.
    """
    rollouts, changes, rows = tokens.rollouts, _changes(tokens), list(chosen)
    actions, counts, widths = _actions(tokens, rows, limit)
    firsts = (tokens.ends - tokens.lengths)[rows].tolist()
    told = [slice(first, first + count) for first, count in zip(firsts, counts, strict=True)]

    def numbers(values: NDArray[Any] | None) -> Sequence[Any]:
        return [None] * len(rows) if values is None else values[rows].tolist()

    def halves(values: NDArray[Any] | None) -> Sequence[Array | None]:
        return [None] * len(rows) if values is None else Array.from_parts("float16", [values[part] for part in told])

    columns: dict[str, Iterable[Any]] = {
        "kinds": chosen.values(),
        "reward": numbers(rollouts.rewards),
        "correct": numbers(rollouts.correct),
        "length": numbers(tokens.lengths),
        "logprob": numbers(tokens.logprob_sums.by_response),
        "actions": Array.from_parts("int32", actions),
        "logprobs": halves(tokens.logprobs),
        "displacement": numbers(None if changes is None else changes.by_response),
        "displacements": halves(None if changes is None else changes.values),
        "trained": [rollouts.trained] * len(rows),
        "entropies": halves(tokens.entropies),
        "group": numbers(rollouts.group_ids),
        "advantage": numbers(tokens.mean_advantages),
        "truncated": numbers(rollouts.truncated),
    }
    ids = rollouts.token_ids
    if ids is not None:
        places = zip(rows, tokens.spans[0, rows].tolist(), widths, strict=True)
        columns["token_ids"] = Array.from_parts(
            "int32", [ids[row, start : start + width] for row, start, width in places]
        )
    return [Response(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]


def _actions(
    tokens: ActionTokens, rows: Sequence[int], limit: int
) -> tuple[list[NDArray[np.int64]], list[int], list[int]]:
    """Give each row's actions up to the limit, how many tokens they hold, and where the last of them ends.

    Actions are the first place and the one after the last, ``(A, 2)``, counted from the row's first action token.
    """
    owner = tokens.owner
    begins = tokens.actions.first(tokens.places) % tokens.rollouts.mask.shape[1] - tokens.spans[0][owner]
    actions = np.stack([begins, begins + tokens.action_lengths.astype(np.int64)], axis=1).clip(max=limit)
    is_shown = begins < limit
    actions, owner = actions[is_shown], owner[is_shown]
    edges = owner.searchsorted(np.add.outer([0, 1], rows))
    counts = tokens.library.added(actions[:, 1] - actions[:, 0], owner, len(tokens.lengths))
    parts = [actions[begin:end] for begin, end in edges.T.tolist()]
    return parts, counts[rows].astype(np.int64).tolist(), actions[edges[1] - 1, 1].tolist()


def _pieces(vocabulary: Sequence[str] | None, ids: Sequence[int] | None) -> list[str] | None:
    """Give the text of each token; empty where the vocabulary does not know it."""
    if vocabulary is None or ids is None:
        return None
    size = len(vocabulary)
    return [str(vocabulary[number]) if 0 <= number < size else "" for number in ids]
