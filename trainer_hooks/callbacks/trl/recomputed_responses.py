"""Computes the numbers of a few of TRL's responses again, and knows how TRL's chat templates divide a response."""

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.hf_trainer.backward_updates import updates_at_each_microbatch, updates_in_backward
from trainer_hooks.probes.expected_mask import TurnGrammar
from trainer_hooks.probes.recomputation import RecomputationProbe, ReportedResponses
from trainer_hooks.probes.recomputed import Recomputed

__all__ = ["PendingRecomputation"]

logger = logging.getLogger("trainer_hooks")


class PendingRecomputation:
    """The first microbatch of a step, from its loss until it is computed again before the update.

    The weights do not change in between, so the log-probabilities of the loss are compared with the weights that
    produced them. Not in the loss itself: a forward pass between the forward and the backward pass of training may
    disturb sharded weights. Where the backward pass of a step's last microbatch makes the update, call `before_update`
    before the loss of every microbatch; a step of one microbatch is then not compared.

    Args:
        trainer: A GRPOTrainer, an RLOOTrainer, or one like them.
        probe: Computes again; None does nothing.
        guard: Swallows and counts errors of this package.
    """

    def __init__(self, trainer: Any, probe: RecomputationProbe | None, guard: Guard) -> None:
        obstacle = None if probe is None else _find_obstacle(trainer)
        if obstacle is not None:
            logger.warning("rlvitals: numbers are not computed again, because %s", obstacle)
        self._trainer = trainer
        self._guard = guard
        self._probe = probe if obstacle is None else None
        if self._probe is not None:
            self._probe.on_error = guard.count
        # By whether responses have feedback: a rollout function may return a mask of it with some of them only.
        self._grammars: dict[bool, TurnGrammar] = {}
        self._pending: tuple[Any, ReportedResponses] | None = None
        self._found: list[Recomputed] = []

    def forget(self) -> None:
        """Discard a microbatch whose update was never made."""
        self._pending, self._found = None, []

    def note(
        self,
        step: int,
        model: Any,
        inputs: Mapping[str, Any],
        *,
        scores: tuple[Tensor | None, Tensor | None],
        mask: Tensor,
        old: Tensor | None,
    ) -> None:
        """Keep a microbatch, if this step is due.

        Args:
            step: The step that is under way.
            model: The model that the loss was given.
            inputs: The microbatch.
            scores: Log-probabilities and entropies that the loss has computed, ``(B, T)``; None where it hides them.
            mask: True on the policy's tokens, ``(B, T)``.
            old: Old log-probabilities, ``(B, T)``, if the weights have not changed since they were computed.
        """
        logprobs = old if scores[0] is None else scores[0]
        if self._probe is None or logprobs is None or "prompt_ids" not in inputs or not self._probe.is_due(step):
            return
        prompts = inputs["prompt_ids"]

        def widen(values: Tensor) -> Tensor:
            return torch.cat([values.new_zeros(prompts.shape), values.detach()], dim=1)

        with self._guard:  # a chat template may raise, and the microbatch is recorded all the same
            self._pending = (
                model,
                ReportedResponses(
                    tokens=torch.cat([prompts, inputs["completion_ids"]], dim=1),
                    mask=widen(mask),
                    logprobs=widen(logprobs),
                    entropies=None if scores[1] is None or scores[0] is None else widen(scores[1]),
                    old_logprobs=None if old is None or scores[0] is None else widen(old),
                    # Nothing sees the padding at the end of a response, and its mask is what is checked.
                    attention=torch.cat([inputs["prompt_mask"], torch.ones_like(inputs["completion_ids"])], dim=1),
                    prompt_lengths=torch.full((len(prompts),), prompts.shape[1]),
                    temperature=float(self._trainer.temperature),
                    grammar=self._find_grammar(has_tools="tool_mask" in inputs),
                ),
            )

    def before_update(self) -> None:
        """Compute the microbatch again, if one waits."""
        pending, self._pending = self._pending, None
        if self._probe is not None and pending is not None:
            model, reported = pending

            def forward(tokens: Tensor, attention: Tensor) -> Tensor:
                with self._trainer.accelerator.autocast():
                    logits: Tensor = model(input_ids=tokens, attention_mask=attention, use_cache=False).logits
                return logits

            self._found = self._probe.recompute(model, reported, forward=forward)

    def after_step(self) -> list[Recomputed]:
        """Return what the step's comparison has given, and let the ranks find out who takes part."""
        found, self._found = self._found, []
        if self._probe is not None:
            self._probe.after_step()
        return found

    def _find_grammar(self, *, has_tools: bool) -> TurnGrammar | None:
        """Return how responses are divided into turns; None where the feedback is not that of a chat template."""
        if has_tools not in self._grammars:
            trainer = self._trainer
            tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
            given = getattr(trainer, "eos_token_ids", None) or [tokenizer.eos_token_id]
            resumes: list[int] = []
            if has_tools:
                is_templated = bool(getattr(trainer, "tools", None) or getattr(trainer, "environments", None))
                resumes = _generation_prompt(trainer, tokenizer) if is_templated else []
                if not resumes:
                    return None
            self._grammars[has_tools] = TurnGrammar(
                ends=frozenset(given), resumes=tuple(resumes), padding=tokenizer.pad_token_id
            )
        return self._grammars[has_tools]


def _find_obstacle(trainer: Any) -> str | None:
    """Return why nothing can be computed again, the same on every rank; None where it can."""
    # Images would have to be divided among the chosen responses. A microbatch without any says nothing about those of
    # other ranks, so the processor decides.
    if hasattr(getattr(trainer, "processing_class", None), "image_processor"):
        return "the model takes images"
    is_only_microbatch = trainer.args.gradient_accumulation_steps == 1
    if updates_at_each_microbatch(trainer) or (updates_in_backward(trainer) and is_only_microbatch):
        return "the weights change in the backward pass of the first microbatch"
    return None


def _generation_prompt(trainer: Any, tokenizer: Any) -> list[int]:
    """Return the ids with which the chat template begins a turn of the policy."""
    if not getattr(tokenizer, "chat_template", None):
        return []
    messages = [{"role": "user", "content": "a"}]
    options = dict(getattr(trainer, "chat_template_kwargs", None) or {}) | {"tokenize": True, "return_dict": False}
    whole, begun = (
        tokenizer.apply_chat_template(messages, add_generation_prompt=adds, **options) for adds in (False, True)
    )
    return list(begun[len(whole) :]) if list(begun[: len(whole)]) == list(whole) else []
