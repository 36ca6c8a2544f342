"""What the loss of a microbatch has computed for its tokens, matched with the microbatch's responses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trainer_hooks.callbacks.shared.one_time_warnings import OneTimeWarnings
from trainer_hooks.callbacks.trl.known_code import is_known_code
from trainer_hooks.callbacks.trl.row_places import find_places
from trainer_hooks.probes.rescoring import Scorer

__all__ = ["LossScores", "ScorerCall", "read_scores"]

IN_PARTS = "scores its responses in parts, or others beside them"
OTHER_TOKENS = "scores other tokens than those of its responses"


class ScorerCall(NamedTuple):
    """One call of TRL's scorer.

    Attributes:
        again: Makes the same call again, and returns log-probabilities and entropies.
        logprobs: Log-probabilities of the responses, ``(B, T)``, nats.
        entropies: Entropies, ``(B, T)``, nats; None where the scorer computes none.
        ids: Token ids of prompts and responses, ``(B, P + T)``, unless a subclass gives something else in their place.
    """

    again: Scorer
    logprobs: Tensor
    entropies: Tensor | None
    ids: Any

    def take_rows(self, places: Sequence[int]) -> "ScorerCall":
        """Return the call with its rows in another order."""
        rows = list(places)

        def take(scores: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
            logprobs, entropies = scores
            return logprobs[rows], None if entropies is None else entropies[rows]

        return ScorerCall(lambda: take(self.again()), *take((self.logprobs, self.entropies)), None)


class LossScores:
    """The call in which a loss has scored its policy: the first one, or the first one that has gradients.

    The loss of a subclass may score other models too, such as a teacher. It may also score the rows of its microbatch
    in another order or in parts, and then a row of the scores is not that of the response in the same place.

    Args:
        trainer: The trainer whose loss it is.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._loss = f"the loss of {type(trainer).__name__}"
        self._warnings = OneTimeWarnings()
        self._call: ScorerCall | None = None
        self._has_gradients = False

    def begin(self) -> None:
        """Begin the loss of a microbatch."""
        self._call, self._has_gradients = None, False

    def note(self, result: Any, original: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Keep a call of the scorer within the loss, if it is the one for the policy.

        Args:
            result: What the scorer has returned.
            original: The scorer.
            args: Its positional arguments: the model, the token ids, and more.
            kwargs: Its other arguments.
        """
        has_gradients = (result if isinstance(result, Tensor) else result[0]).requires_grad
        if self._call is None or (has_gradients and not self._has_gradients):
            ids = kwargs.get("input_ids", args[1] if len(args) > 1 else None)
            self._call = ScorerCall(lambda: read_scores(original(*args, **kwargs)), *read_scores(result), ids)
        self._has_gradients = self._has_gradients or has_gradients

    def take(self) -> ScorerCall | None:
        """Return the call and forget it; None where the loss has called no scorer."""
        call, self._call = self._call, None
        return call

    def match(self, call: ScorerCall, inputs: Mapping[str, Any]) -> ScorerCall | None:
        """Return the call with its rows in the order of the microbatch; None, and a line in the log, if it cannot be.

        Call this after the loss. TRL reads its metrics there, so the device has hardly anything left to do before the
        result of the comparison can be read.
        """
        losses = (getattr(self._trainer, name, None) for name in ("compute_loss", "_compute_loss"))
        found = _match(call, inputs, is_known=all(map(is_known_code, losses)))
        if isinstance(found, ScorerCall):
            return found
        self._warnings.log(
            f"the signals of tokens are not observed, because {self._loss} {found}; have it score all responses of a "
            "microbatch in one call, as they are in the microbatch"
        )
        return None


def read_scores(result: Any) -> tuple[Tensor, Tensor | None]:
    """Read the result of TRL's scorer: a tensor (to 0.19), a pair, or a triple (from 1.9)."""
    if isinstance(result, Tensor):
        return result.detach(), None
    logprobs, entropies = result[0], result[1]
    return logprobs.detach(), None if entropies is None else entropies.detach()


def _match(call: ScorerCall, inputs: Mapping[str, Any], *, is_known: bool) -> ScorerCall | str:
    """Return the call in the order of the microbatch, or what its loss does instead."""
    responses, ids = inputs.get("completion_ids"), call.ids
    if responses is None or not isinstance(ids, Tensor):
        return OTHER_TOKENS
    if call.logprobs.shape != responses.shape or len(ids) != len(responses):
        return IN_PARTS
    if is_known:  # it scores the rows as they are, and nothing waits for the device
        return call
    # Equal responses to different prompts have different scores. A loss may cut the padding before the prompts.
    expected = _join(inputs, "ids")
    width = min(expected.shape[1], ids.shape[1])
    if width < responses.shape[1]:
        return OTHER_TOKENS
    expected, scored = expected[:, -width:], ids[:, -width:]
    # A loss may overwrite what the masks hide.
    hidden = _join(inputs, "mask")[:, -width:] == 0
    if bool(((expected == scored) | hidden).all()):
        return call
    places = find_places(expected.tolist(), scored.tolist(), [None] * len(scored), padding=-1)
    known = [place for place in places if place is not None]
    return call.take_rows(known) if len(known) == len(places) else OTHER_TOKENS


def _join(inputs: Mapping[str, Any], what: str) -> Tensor:
    """Return the columns of the prompts, if the microbatch has them, and of the responses beside each other."""
    sides = ("prompt", "completion") if {"prompt_ids", "prompt_mask"} <= inputs.keys() else ("completion",)
    return torch.cat([inputs[f"{side}_{what}"] for side in sides], dim=1)
