"""Reads what TRL's GRPO and RLOO trainers compute anyway: tokens and rewards of a step, and TRL's own metrics.

Methods are wrapped on the trainer object. Which signals there are depends on which methods exist and are called, never
on TRL's version. Nothing here draws a random number or changes a tensor. Only the probes, where they are asked for, run
the model, and their passes may be collective.
"""

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.hf_trainer.backward_updates import updates_in_backward
from trainer_hooks.callbacks.shared.hf_trainer.capture import StepCapture
from trainer_hooks.callbacks.shared.method_wrappers import Method
from trainer_hooks.callbacks.shared.microbatches import concatenate_arrays
from trainer_hooks.callbacks.trl.known_code import is_known_code
from trainer_hooks.callbacks.trl.labels import ResponseLabels
from trainer_hooks.callbacks.trl.loss_scores import LossScores, ScorerCall, read_scores
from trainer_hooks.callbacks.trl.metrics import StepMetrics
from trainer_hooks.callbacks.trl.recomputed_responses import PendingRecomputation
from trainer_hooks.probes.paired import Paired
from trainer_hooks.probes.recomputation import RecomputationProbe
from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.probes.rescoring import PairedProbe

__all__ = ["RolloutCapture"]

# A column of the rollout batch, so that TRL's own shuffling and splitting keep it aligned with the responses.
OLD = "rlvitals_old_logprobs"
BEFORE_TRAINING = -1
# These losses clip the ratio as PPO does; other losses use ε for something else.
CLIPPED_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo")


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
        # Of each microbatch of the step, whether updates lie between the policy that sampled it and this one.
        self._staleness: set[bool] = set()
        self._microbatches: list[dict[str, Tensor]] = []
        self._loss_scores = LossScores(trainer)  # of the microbatch in the loss
        self._rollout_logprobs: list[Tensor] | None = None  # of the rollout batch, while it is made
        self._is_in_loss = False
        # The step after which the rollout batch was made. A second training of a trainer goes on with the batch of the
        # first one, until it makes its own.
        self._generated_at = 0 if getattr(trainer, "_buffered_inputs", None) is None else BEFORE_TRAINING

    def install(self) -> None:
        """Wrap the methods that the trainer has."""
        super().install()
        self._updates_in_backward = updates_in_backward(self._trainer)
        self._metrics.begin_step()
        wrap = functools.partial(self._wrappers.wrap, self._trainer)
        wrap("_generate_and_score_completions", self._around_rollout)
        wrap("_calculate_rewards", self._around_rewards)
        for name in ("_get_per_token_logps_and_entropies", "_get_per_token_logps"):
            wrap(name, self._around_scorer)
        wrap("compute_loss", self._around_loss)
        with self._guard:
            self._decode = self._create_decoder() if self._texts else None

    def begin_step(self) -> None:
        """Clear the last step."""
        super().begin_step()
        self._microbatches.clear()
        self._labels.begin_step()
        self._is_reserved_scored = False
        if self._probe is not None:
            self._probe.forget()
        self._recomputation.forget()
        self._staleness.clear()

    def end_step(self) -> None:
        """Begin the next step's metrics, because AsyncGRPOTrainer records rewards before a step begins."""
        self._metrics.begin_step()

    def scalars(self) -> dict[str, Any]:
        """Return the step's numbers; TRL's cover all ranks and only this step, not its logging window."""
        return super().scalars() | self._metrics.means(has_ratios=self._is_off_policy) | self._labels.scalars()

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
        is_off_policy = self._is_off_policy
        arrays = concatenate_arrays(
            [
                {name: array for name, array in arrays.items() if is_off_policy or name != "old_logprobs"}
                for arrays in self._microbatches
            ],
            torch,
        )
        labelled = self._labels.label(arrays)  # also those that are not observed are trained on
        if labelled is None or "logprobs" not in labelled:
            return None
        # No update could change fresh ones, so they and the others have no common change. Of a batch of an earlier
        # training it is not known which responses were trained on.
        if len(self._staleness) > 1 or self._generated_at == BEFORE_TRAINING:
            labelled["trained"] = None
        return labelled | {
            "clip_range": self._clip_range(),
            "control_ids": self._control_ids,
            "decode": self._decode,
        }

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
    def _is_off_policy(self) -> bool:
        """Whether updates lie between a rollout and this step; otherwise all ratios are 1 by construction."""
        return True in self._staleness

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
                self._attach_labels(batch, logprobs)
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

    def _attach_labels(self, batch: dict[str, Any], logprobs: list[Tensor]) -> None:
        """Add labels and old log-probabilities to the rollout batch as columns, which TRL shuffles and splits."""
        self._generated_at = self._trainer.state.global_step
        is_in_order = self._labels.attach(batch)
        if is_in_order and logprobs and "old_logps" in batch and "old_per_token_logps" not in batch:
            # RLOO keeps only the sum of each response. The token log-probabilities were computed during the rollout,
            # and so were those of the reference model. The ones whose sums match are chosen on the device, so that
            # nothing waits for the device.
            table = torch.stack(logprobs)
            gaps = ((table * batch["completion_mask"]).sum(dim=2) - batch["old_logps"]).abs().amax(dim=1)
            batch[OLD] = table.index_select(0, gaps.argmin(dim=0, keepdim=True))[0]

    def _add_microbatch(self, model: Any, inputs: Mapping[str, Any]) -> None:
        if "completion_mask" not in inputs:  # TRL's trainers without rollouts have metrics alone
            return
        mask = inputs["completion_mask"]
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        old = inputs.get("old_per_token_logps", inputs.get(OLD))
        call = self._loss_scores.take()
        matched = None if call is None else self._loss_scores.match(call, inputs)
        is_unmatched = call is not None and matched is None
        logprobs, entropies = (old, None) if matched is None else (matched.logprobs, matched.entropies)
        sampler = inputs.get("sampling_per_token_logps")
        if sampler is not None and logprobs is not None:
            # vLLM could not score these tokens. Like TRL, take them as equal to the trainer's own.
            sampler = torch.where(sampler.isnan(), logprobs if old is None else old, sampler)
        is_stale = old is not None and self._trainer.state.global_step > self._generated_at
        self._staleness.add(is_stale)
        arrays = {
            # The step may have microbatches that are matched, and old ones would be of another policy.
            "logprobs": None if is_unmatched else logprobs,
            "mask": mask,
            "entropies": entropies,
            # Where a step mixes both, the ratio of a fresh token is 1, without the rounding between two passes.
            "old_logprobs": None if matched is None else old if is_stale else logprobs,
            "ref_logprobs": inputs.get("ref_per_token_logps"),
            "sampler_logprobs": sampler,
            "advantages": inputs.get("advantages"),
            "token_ids": inputs.get("completion_ids"),
            **self._labels.columns_of(inputs),
        }
        if not self._microbatches:
            if call is not None and self._probe is not None and self._probe.is_due(self._step):
                self._note_for_probe(self._probe, call, matched, inputs)
            # Without scores no token is compared, but other ranks may wait for this one in the pass.
            scores = None if matched is None else logprobs, entropies
            self._recomputation.note(
                self._step,
                model,
                inputs,
                scores=(torch.zeros_like(mask, dtype=torch.float32), None) if is_unmatched else scores,
                mask=torch.zeros_like(mask) if is_unmatched else mask,
                old=None if is_unmatched or is_stale else old,
            )
        self._microbatches.append({name: array.detach() for name, array in arrays.items() if array is not None})

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

    def _clip_range(self) -> tuple[float, float] | None:
        trainer = self._trainer
        # Another loss may have another range under the same settings; TRL's own metrics of it are then sent.
        if not is_known_code(getattr(trainer, "_compute_loss", None)):
            return None
        is_per_token = getattr(trainer, "importance_sampling_level", None) == "token"
        if not is_per_token or getattr(trainer, "loss_type", None) not in CLIPPED_LOSSES:
            return None
        # An ε from 1 on clips nothing below. The shares that are clipped are then not defined, and the rest is.
        is_clipped = 0 < trainer.epsilon_low < 1 and trainer.epsilon_high > 0
        return (trainer.epsilon_low, trainer.epsilon_high) if is_clipped else None
