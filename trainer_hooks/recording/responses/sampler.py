"""Samples a few responses of a step and puts their tokens into wire form.

This runs in the batch processor's thread, never in training's. Random responses are drawn with a private generator that
is made anew for each record. Text is sent only where the user turned it on, and passes the user's redaction first.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainer_hooks.recording.responses.selection import select_rows
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.response_actions.tokens import ActionTokens
from trainer_hooks.wire import Array, Response, ResponseKind, encode

__all__ = ["ResponseSampler"]

# Bytes of a token: its id, and a float16 for each of ln π, displacement and entropy.
TOKEN_BYTES = 4 + 3 * 2
# Bytes of the names and numbers of one response.
ENVELOPE_BYTES = 300
# Most characters of text that are sent for each token.
TEXT_CHARACTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSampler:
    """Samples a step's responses.

    Args:
        count: Most responses of each kind; 0 samples none.
        max_bytes: Most bytes of a step on this rank. First the ends of long responses are cut off, then the last
            responses are left out.
        texts: Whether texts may leave the process.
        redact: Receives the text of each response and returns what may be sent. Where it changes the text, or there is
            no text to give it, the token ids and token texts of that response stay in this process too, because they
            contain the same information.
        on_loss: Called for each text that was left out because ``redact`` or the decoding of token ids raised.
    """

    count: int
    max_bytes: int
    texts: bool = False
    redact: Callable[[str], str] | None = None
    on_loss: Callable[[str], None] = lambda _: None

    def sample(self, tokens: ActionTokens, *, seed: str, drawable: Sequence[int] | None = None) -> list[msgspec.Raw]:
        """Select and encode responses, at most ``max_bytes`` together, in the order of `RESPONSE_KINDS`.

        Args:
            tokens: This rank's responses of the step, or all candidates among them, on the host.
            seed: Seed of the random draw.
            drawable: Rows from which the random responses are drawn; all unless given.
        """
        if not self.count or not tokens.lengths.any():
            return []
        with np.errstate(all="ignore"):  # NaN and Inf are valid here, and float16 may overflow
            selected = select_rows(tokens, self.count, random.Random(seed), drawable)  # noqa: S311 - no secret
            limit = self._find_limit(tokens, list(selected))
            encoded = self._encode(tokens, selected, limit)
            while sum(map(len, encoded)) > self.max_bytes and limit > 1:  # the size of texts is not known beforehand
                limit //= 2
                encoded = self._encode(tokens, selected, limit)
        fits = np.cumsum([len(body) for body in encoded]) <= self.max_bytes
        return [msgspec.Raw(body) for body, does_fit in zip(encoded, fits, strict=True) if does_fit]

    def _encode(self, tokens: ActionTokens, selected: Mapping[int, list[ResponseKind]], limit: int) -> list[bytes]:
        responses = zip(selected, _build_responses(tokens, selected, limit), strict=True)
        return [encode(self._add_texts(response, tokens, row, limit)) for row, response in responses]

    def _find_limit(self, tokens: ActionTokens, rows: Sequence[int]) -> int:
        """Return the number of tokens at which to cut; short responses leave the rest of their share to longer ones."""
        left = (self.max_bytes - ENVELOPE_BYTES * len(rows)) // TOKEN_BYTES
        begins, ends = tokens.layout.spans
        lengths = sorted((ends - begins)[rows].tolist())
        for place, length in enumerate(lengths):
            share = left // (len(lengths) - place)
            if length > share:
                return max(1, share)
            left -= length
        return max(lengths, default=1)

    def _add_texts(self, response: Response, tokens: ActionTokens, row: int, limit: int) -> Response:
        """Add the texts that may be sent, and remove token ids that would reveal more than these texts."""
        if not self.texts and self.redact is None:
            return response
        rollouts, (begins, ends) = tokens.rollouts, tokens.layout.spans
        # The whole response: a redaction may not recognise a secret that was cut in two.
        ids = None if rollouts.token_ids is None else rollouts.token_ids[row, begins[row] : ends[row]].tolist()
        pieces = _look_up_pieces(rollouts.vocabulary, ids)
        text = self._find_text(rollouts, row, ids)
        if self.redact is not None:
            whole = "".join(pieces or ()) if text is None else text
            redacted = self._call("redact", self.redact, whole) if whole else None
            if redacted != whole:
                text, pieces, response = redacted, None, msgspec.structs.replace(response, token_ids=None)
        if not self.texts:
            return response
        if pieces is not None and response.token_ids is not None:
            pieces = pieces[: response.token_ids.shape[0]]
        return msgspec.structs.replace(
            response, text=None if text is None else text[: TEXT_CHARACTERS * limit], pieces=pieces
        )

    def _find_text(self, rollouts: Rollouts, row: int, ids: list[int] | None) -> str | None:
        if rollouts.texts is not None:
            return rollouts.texts[row]
        if rollouts.decode is None or ids is None:
            return None
        return self._call("decode", rollouts.decode, ids)

    def _call(self, name: str, function: Callable[[Any], str], argument: object) -> str | None:
        """Call a function of the user; where it raises, count the loss and return None."""
        try:
            return str(function(argument))
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self.on_loss(f"{name} raised {type(error).__name__}: {error}; the text was left out")
            return None


def _build_responses(tokens: ActionTokens, selected: Mapping[int, list[ResponseKind]], limit: int) -> list[Response]:
    """Put rows into wire form. Their token arrays are cut after ``limit`` tokens, which include feedback in between.

    All rows are built together, column by column, because a call of numpy costs more than the few numbers of a row.
    """
    rollouts, rows = tokens.rollouts, list(selected)
    # On-policy no update lies between the two policies, and the displacement is not defined.
    changes = tokens.log_ratio_sums if tokens.log_ratio_sums is not None and tokens.is_off_policy else None
    actions, counts, widths = _cut_actions(tokens, rows, limit)
    firsts = (tokens.layout.ends - tokens.lengths)[rows].tolist()
    slices = [slice(first, first + count) for first, count in zip(firsts, counts, strict=True)]

    def numbers(values: NDArray[Any] | None) -> Sequence[Any]:
        return [None] * len(rows) if values is None else values[rows].tolist()

    def halves(values: NDArray[Any] | None) -> Sequence[Array | None]:
        return [None] * len(rows) if values is None else Array.from_parts("float16", [values[part] for part in slices])

    columns: dict[str, Iterable[Any]] = {
        "kinds": selected.values(),
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
        places = zip(rows, tokens.layout.spans[0, rows].tolist(), widths, strict=True)
        columns["token_ids"] = Array.from_parts(
            "int32", [ids[row, start : start + width] for row, start, width in places]
        )
    return [Response(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]


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


def _look_up_pieces(vocabulary: Sequence[str] | None, ids: Sequence[int] | None) -> list[str] | None:
    """Return the text of each token; empty where the vocabulary does not have it."""
    if vocabulary is None or ids is None:
        return None
    size = len(vocabulary)
    return [str(vocabulary[number]) if 0 <= number < size else "" for number in ids]
