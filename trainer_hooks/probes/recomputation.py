"""Computes a trainer's numbers for a few responses again, by other code. Depends on torch and on no framework.

A verdict about a run is only as good as the numbers that it was made from. A wrong temperature, a mask that is shifted
by one token, or scores of weights that are not the ones that are trained look like changes of the policy. This module
runs the model itself, without the trainer's scorer, and compares.

Valid comparisons. The numbers must be compared with the weights that produced them. Between two updates these are the
weights of the moment, so numbers that the loss of a step has computed are compared before the update of that step.
Old log-probabilities are compared only if no update lies between them and the comparison.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from trainer_hooks.errors import RolloutsError
from trainer_hooks.probes.expected_mask import TurnGrammar
from trainer_hooks.probes.forward_pass import evaluating, has_dropout, uncompiled, without_trace
from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.ranks.participation import Unanimity
from trainer_hooks.ranks.process_group import find_world_size

__all__ = ["Forward", "RecomputationProbe", "ReportedResponses", "recompute"]

logger = logging.getLogger("trainer_hooks")

Forward: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Maps token ids and attention mask, both ``(B, T)``, padded at the end, to next-token logits ``(B, T, V)``."""

POSITIONS_AT_A_TIME = 256
"""Positions whose logits are widened to float32 at a time, so that a large vocabulary needs little more memory."""


class ReportedResponses(NamedTuple):
    """Responses with the numbers that a trainer reported for them; B responses, T tokens with the prompt.

    Attributes:
        tokens: Token ids, ``(B, T)``.
        mask: True on the tokens that the trainer counts as the policy's, ``(B, T)``.
        logprobs: ln π that the trainer has used for each token, ``(B, T)``, nats; read where the mask is True.
        entropies: Entropy of the distribution that each token was drawn from, ``(B, T)``, nats, if it is reported.
        old_logprobs: ln π_old, ``(B, T)``, nats. Give it only if no update lies between it and the comparison.
        attention: False on padding, ``(B, T)``; nothing is padding unless given.
        prompt_lengths: Tokens of each row before the response, padding included, ``(B,)``; needed for a grammar.
        temperature: The temperature at which the trainer computes.
        grammar: Finds the policy's tokens independently of the mask, if it is known how.
    """

    tokens: Tensor
    mask: Tensor
    logprobs: Tensor
    entropies: Tensor | None = None
    old_logprobs: Tensor | None = None
    attention: Tensor | None = None
    prompt_lengths: Tensor | None = None
    temperature: float = 1.0
    grammar: TurnGrammar | None = None


class RecomputationProbe:
    """Computes the numbers of a few responses again at every n-th step; raises nothing.

    With several processes a forward pass may be collective, because sharded weights are gathered. Therefore construct a
    probe on every rank, and call `recompute` equally often at the same steps on every rank. No step is due before all
    ranks are known to have a probe, which is from the third step on, or never. The weights, the states of random
    generators and the modes of the model's modules are not changed.

    Args:
        every: Compute again at each step whose number is a multiple of this, ≥ 1.
        responses: Most responses at a time, ≥ 1. Which ones they are changes from time to time.
        tokens: Most tokens of a response with its prompt, ≥ 2; the tokens after them are not compared.
        on_error: Receives each error of ours, such as ``monitor.drops.count_error``; it is logged unless given.

    Raises:
        ValueError: If a bound is too small.
    """

    def __init__(
        self,
        every: int,
        *,
        responses: int = 2,
        tokens: int = 2048,
        on_error: Callable[[Exception], object] | None = None,
    ) -> None:
        for name, value, least in (("every", every, 1), ("responses", responses, 1), ("tokens", tokens, 2)):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        self.on_error = on_error or _log
        self._every, self._responses, self._tokens = every, responses, tokens
        self._ranks = Unanimity(f"recomputation every {every} steps")
        self._times = 0
        self._has_warned = False

    def is_due(self, step: int) -> bool:
        """Return whether to compute again at this step; the same on every rank."""
        return step % self._every == 0 and self._ranks.is_unanimous

    def recompute(
        self, model: nn.Module, reported: ReportedResponses, *, forward: Forward | None = None
    ) -> list[Recomputed]:
        """Compute again what a trainer reported; call it between the pass that gave the numbers and the next update.

        Args:
            model: The model, as the trainer calls it, wrappers included.
            reported: The responses and their numbers.
            forward: Runs the model; unless given, the model is called as a causal language model of transformers is.

        Returns:
            What `Monitor.log_step` takes as ``recomputed``. Empty if it failed, or if the model drops activations at
            random, because such numbers cannot be computed again.
        """
        run = _OnePass(model, forward)
        try:
            if has_dropout(model):
                if not self._has_warned:
                    logger.warning("rlvitals: numbers are not computed again, because the model has active dropout")
                self._has_warned = True
                return []
            first, there = self._times * self._responses, len(reported.tokens)
            self._times += 1
            rows = {(first + offset) % there for offset in range(min(self._responses, there))}
            if rows:
                chosen = torch.tensor(sorted(rows), device=reported.tokens.device)
                return _recompute(run, _take_rows(reported, chosen), most_tokens=self._tokens)
        except Exception as error:  # noqa: BLE001 - nothing of ours raises into training
            self.on_error(error)
        if not run.is_begun and find_world_size() > 1:
            self._join(run, reported)
        return []

    def _join(self, run: "_OnePass", reported: ReportedResponses) -> None:
        """Make the pass without a response of this rank, because the other ranks may wait for this one in theirs."""
        try:
            tokens = torch.zeros(1, 2, dtype=torch.long, device=getattr(reported.tokens, "device", None))
            run(tokens, torch.ones_like(tokens))
        except Exception as error:  # noqa: BLE001 - nothing of ours raises into training
            self.on_error(error)

    def after_step(self) -> None:
        """Find out which ranks have a probe; call this after every step."""
        try:
            self._ranks.after_step()
        except Exception as error:  # noqa: BLE001 - nothing of ours raises into training
            self.on_error(error)


def recompute(
    model: nn.Module, reported: ReportedResponses, *, forward: Forward | None = None, most_tokens: int = 2048
) -> list[Recomputed]:
    """Compute ln π and entropy of the masked tokens with one forward pass, and return them beside the reported ones.

    With z the logits before a token and τ the temperature, ln π = log_softmax(z / τ) and H = −Σ π ln π, in float32. The
    forward pass is made in evaluation mode and without gradients. Each response is moved to the front of its row and
    padded at its end, so a trainer that pads elsewhere is checked for that too. The first token of a row is not
    compared, because nothing predicts it.

    Args:
        model: The model, as the trainer calls it, wrappers included.
        reported: The responses and their numbers; all of them are computed again.
        forward: Runs the model; unless given, the model is called as a causal language model of transformers is.
        most_tokens: Tokens of a row that are computed; those after them are not compared.

    Returns:
        The numbers of the loss, and another pair for old log-probabilities if they were given.

    Raises:
        RolloutsError: If shapes contradict each other, or a token id that is no padding is below 0.
    """
    return _recompute(_OnePass(model, forward), reported, most_tokens=most_tokens)


def _recompute(run: "_OnePass", reported: ReportedResponses, *, most_tokens: int) -> list[Recomputed]:
    shape = tuple(reported.tokens.shape)
    for name in ("mask", "logprobs", "entropies", "old_logprobs", "attention"):
        value = getattr(reported, name)
        if value is not None and tuple(value.shape) != shape:
            raise RolloutsError(f"{name} must have the shape of tokens {shape}, got {tuple(value.shape)}")
    expected = _expected_mask(reported)
    attention = torch.ones(shape, device=reported.tokens.device) if reported.attention is None else reported.attention
    wanted = reported.mask.bool() if expected is None else reported.mask.bool() | expected
    # Nothing after the last wanted token has an influence on it.
    is_read = attention.bool() & wanted.flip(1).cummax(dim=1).values.flip(1)
    kept = [row.nonzero()[:most_tokens, 0] for row in is_read]
    length = max([2, *map(len, kept)])

    def pack(values: Tensor) -> Tensor:
        packed = torch.zeros(len(kept), length, dtype=values.dtype, device=values.device)
        for row, places in enumerate(kept):
            packed[row, : len(places)] = values[row, places.to(values.device)]
        return packed

    tokens, is_token = pack(reported.tokens), pack(is_read.long())
    # An accelerator would not raise an error at such an id, but end the process's use of it.
    if (tokens < 0).any():
        raise RolloutsError(
            f"token ids must be at least 0, got {int(tokens.min())}; give the ids that the model was given, and "
            "attention where they are padded"
        )
    # Kernels for rows without padding refuse a batch without any token, and attention to nothing is NaN.
    is_token[:, 0] = 1
    logits = run(tokens, is_token)
    again = _scores(logits, tokens.to(logits.device), reported.temperature)
    mask = pack(reported.mask.bool())[:, 1:]

    def read(values: Tensor | None) -> Tensor | None:
        return None if values is None else pack(values.detach())[:, 1:].to(again[0].device)

    given: dict[str, Any] = {"mask": mask.to(again[0].device)}
    logprobs = pack(reported.logprobs.detach())[:, 1:].to(again[0].device)
    known = None if expected is None else pack(expected)[:, 1:].to(again[0].device)
    found = [Recomputed((logprobs, read(reported.entropies)), again, expected_mask=known, **given)]
    if reported.old_logprobs is not None:
        old = pack(reported.old_logprobs.detach())[:, 1:].to(again[0].device)
        found.append(Recomputed((old, None), (again[0], None), **given))
    return found


class _OnePass:
    """A forward pass in evaluation mode that leaves no trace, and knows whether it was begun.

    Args:
        model: The model.
        forward: Runs it; unless given, it is called as a causal language model of transformers is.
    """

    def __init__(self, model: nn.Module, forward: Forward | None) -> None:
        self._model = model
        self.is_begun = False
        self._forward = forward

    def __call__(self, tokens: Tensor, attention: Tensor) -> Tensor:
        """Return logits without gradients, ``(B, T, V)``."""
        self.is_begun = True
        with without_trace(), evaluating(self._model), uncompiled():
            if self._forward is not None:
                return self._forward(tokens, attention)
            logits: Tensor = self._model(input_ids=tokens, attention_mask=attention, use_cache=False).logits
        return logits


def _scores(logits: Tensor, tokens: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Compute ln π of each token after the first, and the entropy that it was drawn from, each ``(B, T − 1)``."""
    logprobs, entropies = [], []
    before, following = logits[:, :-1], tokens[:, 1:]
    for first in range(0, following.shape[1], POSITIONS_AT_A_TIME):
        here = slice(first, first + POSITIONS_AT_A_TIME)
        log_pi = torch.log_softmax(before[:, here].float() / temperature, dim=-1)
        logprobs.append(log_pi.gather(2, following[:, here, None])[:, :, 0])
        entropies.append(torch.special.entr(log_pi.exp()).sum(dim=-1))
    return torch.cat(logprobs, dim=1), torch.cat(entropies, dim=1)


def _expected_mask(reported: ReportedResponses) -> Tensor | None:
    """Derive the mask from the tokens; None where no grammar is known."""
    if reported.grammar is None or reported.prompt_lengths is None:
        return None
    found = torch.zeros(reported.tokens.shape, dtype=torch.bool)
    rows = zip(reported.tokens.tolist(), reported.prompt_lengths.tolist(), strict=True)
    for row, (tokens, prompt) in enumerate(rows):
        found[row, prompt:] = torch.tensor(reported.grammar.mask_of(tokens[prompt:]), dtype=torch.bool)
    return found.to(reported.tokens.device)


def _take_rows(reported: ReportedResponses, rows: Tensor) -> ReportedResponses:
    def take(values: Tensor) -> Tensor:
        return values[rows.to(values.device)]

    def take_given(values: Tensor | None) -> Tensor | None:
        return None if values is None else take(values)

    return reported._replace(
        tokens=take(reported.tokens),
        mask=take(reported.mask),
        logprobs=take(reported.logprobs),
        entropies=take_given(reported.entropies),
        old_logprobs=take_given(reported.old_logprobs),
        attention=take_given(reported.attention),
        prompt_lengths=take_given(reported.prompt_lengths),
    )


def _log(error: Exception) -> None:
    logger.warning("rlvitals: numbers could not be computed again: %s: %s", type(error).__name__, error)
