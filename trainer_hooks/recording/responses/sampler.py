"""Samples a few responses of a step and puts their tokens into wire form.

This runs in the batch processor's thread, never in training's. Random responses are drawn with a private generator that
is made anew for each record. Text is sent only where the user turned it on, and passes the user's redaction first.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from trainer_hooks.recording.responses.selection import select_rows
from trainer_hooks.recording.responses.wire_form import TokenNumbers, build_responses, find_token_numbers
from trainer_hooks.recording.schema_versions import FIRST_VERSION, version_of_responses
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.text_safety import describe_error, encodable
from trainer_hooks.wire import Response, ResponseKind, encode

__all__ = ["NO_RESPONSES", "ResponseSampler", "SampledResponses"]

# Bytes of a token: its id, and a float16 for each of its numbers. The sampler reserves space for at least three
# numbers.
ID_BYTES, NUMBER_BYTES, FEWEST_NUMBERS = 4, 2, 3
# Bytes of the names and numbers of one response.
ENVELOPE_BYTES = 300
# Most characters of text that are sent for each token.
TEXT_CHARACTERS = 6


class SampledResponses(NamedTuple):
    """The encoded responses of a step, and the lowest schema version that can read them."""

    encoded: list[msgspec.Raw]
    schema_version: int


NO_RESPONSES = SampledResponses([], FIRST_VERSION)


class ResponseTexts(NamedTuple):
    """What may be sent of the texts of one response.

    Attributes:
        text: The whole text.
        pieces: The text of each token.
        hides_ids: Whether the token ids would reveal more than these texts.
    """

    text: str | None = None
    pieces: list[str] | None = None
    hides_ids: bool = False


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

    def sample(self, tokens: ActionTokens, *, seed: str, drawable: Sequence[int] | None = None) -> SampledResponses:
        """Select and encode responses, at most ``max_bytes`` together, in the order of `RESPONSE_KINDS`.

        Args:
            tokens: This rank's responses of the step, or all candidates among them, on the host.
            seed: Seed of the random draw.
            drawable: Rows from which the random responses are drawn; all unless given.
        """
        if not self.count or not tokens.lengths.any():
            return NO_RESPONSES
        with np.errstate(all="ignore"):  # NaN and Inf are valid here, and float16 may overflow
            selected = select_rows(tokens, self.count, random.Random(seed), drawable)  # noqa: S311 - no secret
            numbers = find_token_numbers(tokens, list(selected))
            limit = self._find_limit(tokens, list(selected), len(numbers))
            # Once each: the user's redaction may be slow, and a loss is counted where it raises.
            texts = [self._read_texts(tokens, row) for row in selected]
            encoded = _encode(tokens, selected, numbers, texts, limit)
            while sum(map(len, encoded)) > self.max_bytes and limit > 1:  # the size of texts is not known beforehand
                limit //= 2
                encoded = _encode(tokens, selected, numbers, texts, limit)
        fits = np.cumsum([len(body) for body in encoded]) <= self.max_bytes
        fitting = [msgspec.Raw(body) for body, does_fit in zip(encoded, fits, strict=True) if does_fit]
        return SampledResponses(fitting, version_of_responses(numbers)) if fitting else NO_RESPONSES

    def _find_limit(self, tokens: ActionTokens, rows: Sequence[int], numbers: int) -> int:
        """Return the number of tokens at which to cut; longer responses may use the unused share of short ones."""
        token_bytes = ID_BYTES + NUMBER_BYTES * max(FEWEST_NUMBERS, numbers)
        left = (self.max_bytes - ENVELOPE_BYTES * len(rows)) // token_bytes
        begins, ends = tokens.layout.spans
        lengths = sorted((ends - begins)[rows].tolist())
        for place, length in enumerate(lengths):
            share = left // (len(lengths) - place)
            if length > share:
                return max(1, share)
            left -= length
        return max(lengths, default=1)

    def _read_texts(self, tokens: ActionTokens, row: int) -> ResponseTexts:
        """Decode and redact the texts of a response."""
        if not self.texts and self.redact is None:
            return ResponseTexts()
        rollouts, (begins, ends) = tokens.rollouts, tokens.layout.spans
        # The whole response: a redaction may not recognise a secret that was cut in two.
        ids = None if rollouts.token_ids is None else rollouts.token_ids[row, begins[row] : ends[row]].tolist()
        pieces = _look_up_pieces(rollouts.vocabulary, ids)
        text = self._find_text(rollouts, row, ids)
        hides_ids = False
        if self.redact is not None:
            whole = "".join(pieces or ()) if text is None else text
            redacted = self._call("redact", self.redact, whole) if whole else None
            if redacted != whole:
                text, pieces, hides_ids = redacted, None, True
        return ResponseTexts(text, pieces, hides_ids) if self.texts else ResponseTexts(hides_ids=hides_ids)

    def _find_text(self, rollouts: Rollouts, row: int, ids: list[int] | None) -> str | None:
        if rollouts.texts is not None:
            text = rollouts.texts[row]
            return None if text is None else self._call("str", str, text)
        if rollouts.decode is None or ids is None:
            return None
        return self._call("decode", rollouts.decode, ids)

    def _call(self, name: str, function: Callable[[Any], str], argument: object) -> str | None:
        """Call a function of the user; where it raises, count the loss and return None."""
        try:
            return encodable(str(function(argument)))
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything, and call sys.exit()
            self.on_loss(f"{name} raised {type(error).__name__}: {describe_error(error)}; the text was left out")
            return None


def _encode(
    tokens: ActionTokens,
    selected: Mapping[int, list[ResponseKind]],
    numbers: TokenNumbers,
    texts: Sequence[ResponseTexts],
    limit: int,
) -> list[bytes]:
    responses = zip(build_responses(tokens, selected, numbers, limit), texts, strict=True)
    return [encode(_add_texts(response, found, limit)) for response, found in responses]


def _add_texts(response: Response, found: ResponseTexts, limit: int) -> Response:
    """Add the texts, cut where the tokens are, and remove token ids that would reveal more than these texts."""
    text, pieces, hides_ids = found
    if pieces is not None and response.token_ids is not None:
        pieces = pieces[: response.token_ids.shape[0]]
    return msgspec.structs.replace(
        response,
        text=None if text is None else text[: TEXT_CHARACTERS * limit],
        pieces=pieces,
        token_ids=None if hides_ids else response.token_ids,
    )


def _look_up_pieces(vocabulary: Sequence[str] | None, ids: Sequence[int] | None) -> list[str] | None:
    """Return the text of each token; empty where the vocabulary does not have it."""
    if vocabulary is None or ids is None:
        return None
    size = len(vocabulary)
    return [encodable(str(vocabulary[number])) if 0 <= number < size else "" for number in ids]
