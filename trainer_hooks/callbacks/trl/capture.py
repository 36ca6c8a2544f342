"""Reads what TRL's GRPO and RLOO trainers compute anyway: tokens and rewards of a step, and TRL's own metrics.

Methods are wrapped on the trainer object. Which signals there are depends on which methods exist and are called, never
on TRL's version. Nothing here draws a random number or changes a tensor. Only the probes, where they are asked for, run
the model, and their passes may be collective.
"""

import copy
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.hf_trainer.backward_updates import updates_in_backward
from trainer_hooks.callbacks.shared.hf_trainer.capture import StepCapture
from trainer_hooks.callbacks.shared.method_wrappers import Method
from trainer_hooks.callbacks.trl.labels import ResponseLabels
from trainer_hooks.callbacks.trl.loss_scores import LossScores, ScorerCall, read_scores
from trainer_hooks.callbacks.trl.metrics import StepMetrics
from trainer_hooks.callbacks.trl.recomputed_responses import PendingRecomputation
from trainer_hooks.callbacks.trl.step_rollouts import Microbatch, StepRollouts
from trainer_hooks.probes.paired import Paired
from trainer_hooks.probes.recomputation import RecomputationProbe
from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.probes.rescoring import PairedProbe

__all__ = ["RolloutCapture"]

logger = logging.getLogger("trainer_hooks")

ROLLOUT, GRADING = "_generate_and_score_completions", "_calculate_rewards"
SCORERS = ("_get_per_token_logps_and_entropies", "_get_per_token_logps")


class RolloutCapture(StepCapture):
    """Collects the microbatches of a step, and the metrics that TRL records during it.

    Args:
        trainer: A GRPOTrainer, an RLOOTrainer, or one like them.
        guard: Swallows and counts errors of this package.
        correct: Name of the reward function whose positive value means that a response is correct; the weighted sum
            of all unless given.
        control_ids: Token ids of the protocol.
        texts: Whether texts of responses may leave the process.
        probe: Scores one microbatch again after the update.
        reserved: Takes the trainer, and returns the arguments of `PairedProbe.note` for responses held out from the
            update.
        recomputation: Computes the numbers of a few responses again before the update.
    """

    prefix = "trl"

    def __init__(
        self,
        trainer: Any,
        guard: Guard,
        *,
        correct: str | None = None,
        control_ids: Sequence[int] | None = None,
        texts: bool = False,
        probe: PairedProbe | None = None,
        reserved: Callable[[Any], Mapping[str, Any]] | None = None,
        recomputation: RecomputationProbe | None = None,
    ) -> None:
        super().__init__(trainer, guard)
        if not any(hasattr(trainer, name) for name in (ROLLOUT, GRADING, *SCORERS)):
            _report_no_rollouts(
                trainer,
                correct=correct,
                control_ids=control_ids,
                probe_every=probe,
                reserved=reserved,
                recompute_every=recomputation,
            )
            correct = probe = reserved = recomputation = None
        self._labels = ResponseLabels(trainer, correct)
        self._metrics = StepMetrics(trainer)
        self.names = self._metrics.canonical_names  # older trainers log their metrics without these lists
        self._control_ids = control_ids
        self._texts = texts
        self._decode: Callable[[list[int]], str] | None = None
        self._probe = probe
        self._reserved = reserved
        self._recomputation = PendingRecomputation(trainer, recomputation, guard)
        self._updates_in_backward = False
        self._is_reserved_scored = False  # whether the held-out responses of this step were
        self._rollouts = StepRollouts(trainer, self._labels)
        self._loss_scores = LossScores(trainer)  # of the microbatch in the loss
        self._rollout_logprobs: list[Tensor] | None = None  # of the rollout batch, while it is made
        self._is_in_loss = False

    def install(self) -> None:
        """Wrap the methods that the trainer has."""
        super().install()
        self._updates_in_backward = updates_in_backward(self._trainer)
        self._metrics.begin_step()
        wrap = functools.partial(self._wrappers.wrap, self._trainer)
        wrap(ROLLOUT, self._around_rollout)
        wrap(GRADING, self._around_rewards)
        for name in SCORERS:
            wrap(name, self._around_scorer)
        wrap("compute_loss", self._around_loss)
        with self._guard:
            self._decode = self._create_decoder() if self._texts else None

    def begin_step(self) -> None:
        """Clear the last step."""
        super().begin_step()
        self._rollouts.begin_step()
        self._labels.begin_step()
        self._is_reserved_scored = False
        if self._probe is not None:
            self._probe.forget()
        self._recomputation.forget()

    def end_step(self) -> None:
        """Begin the next step's metrics, because AsyncGRPOTrainer records rewards before a step begins."""
        self._metrics.begin_step()

    def scalars(self) -> dict[str, Any]:
        """Return the step's numbers; TRL's cover all ranks and only this step, not its logging window."""
        return super().scalars() | self._metrics.means(has_ratios=self._rollouts.is_off_policy) | self._labels.scalars()

    def before_update(self) -> None:
        """Score the held-out responses and compute numbers again, unless the update has been made already."""
        if not self._updates_in_backward:
            self._recomputation.before_update()  # first, because an error of the other must not keep this rank from it
            self._score_reserved()

    def paired_scores(self) -> list[Paired]:
        """Score the first microbatch and the held-out responses again, if this step is due."""
        return self._probe.after_update() if self._probe is not None else []

    def recomputed_scores(self) -> list[Recomputed]:
        """Return the numbers of a few responses beside the same ones computed again, if this step is due."""
        return self._recomputation.after_step()

    def logged_numbers(self, logs: Mapping[str, object]) -> dict[str, float]:
        """Return what is logged except TRL's own metrics, which are read at each step, before TRL averages them."""
        own = self._metrics.names
        rest = super().logged_numbers({name: value for name, value in logs.items() if name not in own})
        # After the log of an evaluation TRL empties other lists.
        if self._is_training():
            self._metrics.after_log()
        return rest

    def rollouts(self) -> dict[str, Any] | None:
        """Return the step's arguments of `trainer_hooks.Rollouts`, or None where no token was read."""
        arguments = self._rollouts.arguments()
        return None if arguments is None else arguments | {"control_ids": self._control_ids, "decode": self._decode}

    def _score_reserved(self) -> None:
        """Score the held-out responses if this step is due, which is the same on every rank."""
        if self._probe is not None and self._reserved is not None and self._probe.is_due(self._step):
            self._is_reserved_scored = True
            self._probe.note(**self._reserved(self._trainer))

    def _before_loss(self) -> None:
        """Do what precedes the update before the loss of a microbatch, where the backward pass makes the update."""
        # The first microbatch waits for this, and its backward pass has made no update if another microbatch follows.
        self._recomputation.before_update()
        if not self._is_reserved_scored:
            self._score_reserved()

    @property
    def _step(self) -> int:
        """The step that is under way."""
        return int(self._trainer.state.global_step) + 1

    def _is_training(self) -> bool:
        return bool(self._trainer.model.training)

    def _around_rollout(self, original: Method) -> Method:
        @functools.wraps(original)
        def rollout(*args: Any, **kwargs: Any) -> Any:
            if not self._is_training():
                return original(*args, **kwargs)
            self._rollout_logprobs = []
            self._labels.begin_rollout()
            try:
                batch = original(*args, **kwargs)
            finally:
                logprobs, self._rollout_logprobs = self._rollout_logprobs, None
            with self._guard:
                self._rollouts.attach(batch, logprobs)
            return batch

        return rollout

    def _around_rewards(self, original: Method) -> Method:
        @functools.wraps(original)
        def rewards(*args: Any, **kwargs: Any) -> Any:
            gathered = original(*args, **kwargs)
            if self._rollout_logprobs is not None:
                with self._guard:
                    given = dict(zip(("inputs", "prompts", "completions", "completion_ids_list"), args, strict=False))
                    given |= kwargs
                    tokens = given.get("completion_ids_list", ())
                    self._labels.note_rewards(gathered.detach().cpu(), given["completions"], tokens)
            return gathered

        return rewards

    def _around_scorer(self, original: Method) -> Method:
        @functools.wraps(original)
        def score(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            with self._guard:
                if self._rollout_logprobs is not None:
                    self._rollout_logprobs.append(read_scores(result)[0])
                elif self._is_in_loss:
                    self._loss_scores.note(result, original, args, kwargs)
            return result

        return score

    def _around_loss(self, original: Method) -> Method:
        @functools.wraps(original)
        def loss(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_training():
                return original(model, inputs, *args, **kwargs)
            if self._updates_in_backward:
                with self._guard:
                    self._before_loss()
            self._is_in_loss = True
            self._loss_scores.begin()
            try:
                result = original(model, inputs, *args, **kwargs)
            finally:
                self._is_in_loss = False
            with self._guard:
                self._add_microbatch(model, inputs)
            return result

        return loss

    def _add_microbatch(self, model: Any, inputs: Mapping[str, Any]) -> None:
        if "completion_mask" not in inputs:  # TRL's trainers without rollouts have metrics alone
            return
        call = self._loss_scores.take()
        matched = None if call is None else self._loss_scores.match(call, inputs)
        microbatch = self._rollouts.add(inputs, call, matched)
        if microbatch.is_first:
            if call is not None and self._probe is not None and self._probe.is_due(self._step):
                self._note_for_probe(self._probe, call, matched, inputs)
            self._note_for_recomputation(model, inputs, microbatch, is_scored=matched is not None)

    def _note_for_recomputation(
        self, model: Any, inputs: Mapping[str, Any], microbatch: Microbatch, *, is_scored: bool
    ) -> None:
        mask = microbatch.mask
        # Without scores no token is compared, but other ranks may wait for this one in the pass.
        scores = microbatch.logprobs if is_scored else None, microbatch.entropies
        is_unmatched = microbatch.is_unmatched
        self._recomputation.note(
            self._step,
            model,
            inputs,
            scores=(torch.zeros_like(mask, dtype=torch.float32), None) if is_unmatched else scores,
            mask=torch.zeros_like(mask) if is_unmatched else mask,
            old=None if is_unmatched or microbatch.is_stale else microbatch.old,
        )

    def _note_for_probe(
        self, probe: PairedProbe, call: ScorerCall, matched: ScorerCall | None, inputs: Mapping[str, Any]
    ) -> None:
        """Let the probe score the microbatch again, whatever it contains, because other ranks may wait for this one."""
        if matched is None:
            nothing = torch.zeros_like(call.logprobs, dtype=torch.bool)
            probe.note(call.again, before=(call.logprobs, call.entropies), mask=nothing, correct=nothing[:, 0])
            return
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        fresh, correct = self._labels.fresh_and_correct(inputs)
        probe.note(matched.again, before=(matched.logprobs, matched.entropies), mask=mask, fresh=fresh, correct=correct)

    def _create_decoder(self) -> Callable[[list[int]], str]:
        """Copy the tokenizer's decoder, because a background thread uses it while training uses the original."""
        processing = self._trainer.processing_class
        decode: Callable[[list[int]], str] = copy.deepcopy(getattr(processing, "tokenizer", processing)).decode
        return decode


def _report_no_rollouts(trainer: Any, **arguments: object) -> None:
    """Log which arguments of the callback have no effect, where a trainer has no rollouts, such as SFTTrainer."""
    given = ", ".join(name for name, value in arguments.items() if value is not None)
    if given:
        logger.warning(
            "rlvitals: %s has no rollouts, so only its metrics are sent, and these arguments of the callback have no "
            "effect: %s",
            type(trainer).__name__,
            given,
        )
