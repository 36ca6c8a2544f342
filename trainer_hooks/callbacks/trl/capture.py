"""Catches what TRL's GRPO and RLOO trainers compute anyway: the tokens and rewards of a step, and TRL's own metrics.

Methods are wrapped on the trainer object; what exists is found by looking and what fires by being called, never by
TRL's version. Nothing here runs a model, draws a random number, talks to another rank or changes a tensor.
"""

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trainer_hooks.callbacks.parts.guard import Guard
from trainer_hooks.callbacks.parts.naming import TRL, canonical
from trainer_hooks.callbacks.parts.step_capture import Method, StepCapture
from trainer_hooks.callbacks.trl.labels import LABELS, ResponseLabels
from trainer_hooks.probes.paired import Paired
from trainer_hooks.probes.rescoring import PairedProbe, Scorer

__all__ = ["TokenCapture"]

# Rides with the rollout batch, so that TRL's own shuffling and splitting keep it aligned.
OLD = "rlvitals_old_logprobs"
# The losses whose clipping is the one of PPO: other ones use ε for something else.
CLIPPED_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo")
RATIO_NAMES = ("ratio/clip_frac", "ratio/clip_low_frac", "ratio/clip_high_frac")


class TokenCapture(StepCapture):
    """Collects the microbatches of a step, and the metrics that TRL noted during it.

    Args:
        trainer: A GRPOTrainer, an RLOOTrainer, or one like them.
        guard: Takes our errors.
        correct: Name of the reward function whose positive value says that a response is correct; the weighted sum
            of all unless given.
        control_ids: Token ids of the protocol.
        texts: Whether texts of responses may leave the process.
        probe: Scores one microbatch again after the update.
        reserved: Given the trainer, gives the arguments of `PairedProbe.note` for responses held out from the update.
    """

    names = TRL
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
    ) -> None:
        super().__init__(trainer, guard)
        self._labels = ResponseLabels(trainer, correct)
        self._control_ids = control_ids
        self._texts = texts
        self._decode: Callable[[list[int]], str] | None = None
        self._probe = probe
        self._reserved = reserved
        self._probed: Scorer | None = None  # the microbatch in the loss, where it is to be scored again
        self._marks: dict[str, int] = {}
        self._cleared: dict[str, list[float]] = {}  # metrics of this step that TRL has logged already, and forgot
        # Whether updates lie between the policy that sampled and this one; else ratios are 1 by construction.
        self._is_off_policy = False
        self._microbatches: list[dict[str, Tensor]] = []
        self._scores: Tensor | None = None  # of the microbatch in the loss
        self._entropies: Tensor | None = None
        self._rollout_scores: list[Tensor] | None = None  # of a rollout batch, while it is made
        self._is_in_loss = False
        self._generated_at = 0

    def install(self) -> None:
        """Wrap what the trainer has."""
        super().install()
        wrap = functools.partial(self._wrappings.wrap, self._trainer)
        wrap("_generate_and_score_completions", self._around_rollout)
        wrap("_calculate_rewards", self._around_rewards)
        for name in ("_get_per_token_logps_and_entropies", "_get_per_token_logps"):
            wrap(name, self._around_scores)
        wrap("compute_loss", self._around_loss)
        with self._guard:
            self._decode = self._decoder() if self._texts else None

    def begin_step(self) -> None:
        """Forget the last step, and mark where this one's metrics begin: TRL appends until it logs."""
        super().begin_step()
        self._microbatches.clear()
        self._labels.scalars = {}
        self._probed = None
        if self._probe is not None:
            self._probe.forget()
        self._is_off_policy = False
        self._cleared = {}
        self._marks = {name: len(values) for name, values in self._metrics().items()}

    def scalars(self) -> dict[str, Any]:
        """Give the step's numbers; TRL's are of all ranks and of this very step, not of its logging window."""
        means = {name: sum(values) / len(values) for name, values in self._metrics_of_step().items() if values}
        numbers = canonical(means, TRL, prefix=self.prefix)
        if not self._is_off_policy:
            numbers = {name: value for name, value in numbers.items() if name not in RATIO_NAMES}
        return super().scalars() | numbers | self._labels.scalars

    def before_update(self) -> None:
        """Score what is held out, if it is the turn: the same on every rank."""
        if self._probe is not None and self._reserved is not None and self._probe.is_due(self._step):
            self._probe.note(**self._reserved(self._trainer))

    def paired(self) -> list[Paired]:
        """Score the first microbatch, and what is held out, again, if it is the turn."""
        return self._probe.after_update() if self._probe is not None else []

    def logged(self, logs: Mapping[str, object]) -> dict[str, float]:
        """Give the rest of what is logged: TRL's own metrics are read at each step, before it averages them."""
        own = self._metrics().keys()
        rest = super().logged({name: value for name, value in logs.items() if name not in own})
        # TRL empties its metrics after each log, and anybody may log in the middle of a step; after an evaluation's it
        # empties others.
        if self._is_training():
            self._cleared, self._marks = self._metrics_of_step(), {}
        return rest

    def rollouts(self) -> dict[str, Any] | None:
        """Give the step's arguments of `trainer_hooks.Rollouts`, or None where no token was caught."""
        arrays = _joined(self._microbatches)
        labelled = self._labels.read(arrays) if "logprobs" in arrays else None
        if labelled is None:
            return None
        return labelled | {
            "clip_range": self._clip_range(),
            "control_ids": self._control_ids,
            "decode": self._decode,
        }

    @property
    def _step(self) -> int:
        """The step that is under way."""
        return int(self._trainer.state.global_step) + 1

    def _metrics(self) -> dict[str, list[float]]:
        metrics: dict[str, list[float]] = getattr(self._trainer, "_metrics", {}).get("train", {})
        return metrics

    def _metrics_of_step(self) -> dict[str, list[float]]:
        new = {name: values[self._marks.get(name, 0) :] for name, values in self._metrics().items()}
        return self._cleared | {name: self._cleared.get(name, []) + values for name, values in new.items()}

    def _is_training(self) -> bool:
        return bool(self._trainer.model.training)

    def _around_rollout(self, original: Method) -> Method:
        @functools.wraps(original)
        def rollout(*args: Any, **kwargs: Any) -> Any:
            if not self._is_training():
                return original(*args, **kwargs)
            self._rollout_scores = []
            self._labels.expect()
            try:
                batch = original(*args, **kwargs)
            finally:
                scores, self._rollout_scores = self._rollout_scores, None
            with self._guard:
                self._label(batch, scores)
            return batch

        return rollout

    def _around_rewards(self, original: Method) -> Method:
        @functools.wraps(original)
        def rewards(*args: Any, **kwargs: Any) -> Any:
            gathered = original(*args, **kwargs)
            if self._rollout_scores is not None:
                with self._guard:
                    completions = args[2] if len(args) > 2 else kwargs["completions"]  # noqa: PLR2004 - the third
                    self._labels.note(gathered.detach().cpu(), completions)
            return gathered

        return rewards

    def _around_scores(self, original: Method) -> Method:
        @functools.wraps(original)
        def scores(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            with self._guard:
                logprobs, entropies = _logprobs_and_entropies(result)
                if self._rollout_scores is not None:
                    self._rollout_scores.append(logprobs)
                elif self._is_in_loss and self._scores is None:
                    self._scores, self._entropies = logprobs, entropies
                    if self._probe is not None and not self._microbatches and self._probe.is_due(self._step):
                        self._probed = lambda: _logprobs_and_entropies(original(*args, **kwargs))
            return result

        return scores

    def _around_loss(self, original: Method) -> Method:
        @functools.wraps(original)
        def loss(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_training():
                return original(model, inputs, *args, **kwargs)
            self._is_in_loss, self._scores, self._entropies = True, None, None
            try:
                result = original(model, inputs, *args, **kwargs)
            finally:
                self._is_in_loss = False
            with self._guard:
                self._keep(inputs)
            return result

        return loss

    def _label(self, batch: dict[str, Any], scores: list[Tensor]) -> None:
        """Let each response carry its labels, and its old scores, through TRL's shuffling and splitting."""
        self._generated_at = self._trainer.state.global_step
        self._labels.attach(batch)
        if scores and "old_logps" in batch and "old_per_token_logps" not in batch:
            # RLOO keeps sums only; the scores that they are sums of went by a moment ago, beside the reference's. They
            # are told apart on the device, for which nobody waits.
            table = torch.stack(scores)
            gaps = ((table * batch["completion_mask"]).sum(dim=2) - batch["old_logps"]).abs().amax(dim=1)
            batch[OLD] = table.index_select(0, gaps.argmin(dim=0, keepdim=True))[0]

    def _keep(self, inputs: Mapping[str, Any]) -> None:
        if "completion_mask" not in inputs:  # no responses: TRL's other trainers have metrics alone
            return
        mask = inputs["completion_mask"]
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        old = inputs.get("old_per_token_logps", inputs.get(OLD))
        logprobs = old if self._scores is None else self._scores
        sampler = inputs.get("sampling_per_token_logps")
        if sampler is not None and logprobs is not None:
            # vLLM could not score these; TRL, too, takes them as equal to the trainer's own.
            sampler = torch.where(sampler.isnan(), logprobs if old is None else old, sampler)
        is_stale = old is not None and self._trainer.state.global_step > self._generated_at
        self._is_off_policy = self._is_off_policy or is_stale
        found = {
            "logprobs": logprobs,
            "mask": mask,
            "entropies": self._entropies,
            "old_logprobs": old if is_stale and self._scores is not None else None,
            "ref_logprobs": inputs.get("ref_per_token_logps"),
            "sampler_logprobs": sampler,
            "advantages": inputs.get("advantages"),
            "token_ids": inputs.get("completion_ids"),
            **self._labels.carried(inputs),
        }
        if self._probe is not None and self._probed is not None and self._scores is not None:
            self._note_probed(self._probe, self._probed, (self._scores, self._entropies), inputs)
        self._scores = self._entropies = self._probed = None
        self._microbatches.append({name: array.detach() for name, array in found.items() if array is not None})

    def _note_probed(
        self, probe: PairedProbe, score: Scorer, before: tuple[Tensor, Tensor | None], inputs: Mapping[str, Any]
    ) -> None:
        """Have the microbatch scored again, whatever is in it: under sharding the other ranks wait for this one."""
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        fresh, correct = self._labels.fresh_and_correct(inputs)
        probe.note(score, before=before, mask=mask, fresh=fresh, correct=correct)

    def _decoder(self) -> Callable[[list[int]], str]:
        """Give what makes text of token ids, by a tokenizer that another thread may use while training uses its own."""
        processing = self._trainer.processing_class
        decode: Callable[[list[int]], str] = copy.deepcopy(getattr(processing, "tokenizer", processing)).decode
        return decode

    def _clip_range(self) -> tuple[float, float] | None:
        trainer = self._trainer
        is_per_token = getattr(trainer, "importance_sampling_level", None) == "token"
        if not is_per_token or getattr(trainer, "loss_type", None) not in CLIPPED_LOSSES:
            return None
        return trainer.epsilon_low, trainer.epsilon_high


def _logprobs_and_entropies(result: Any) -> tuple[Tensor, Tensor | None]:
    """Read what TRL's scorer gives: a tensor (to 0.19), a pair, or a triple (from 1.9)."""
    if isinstance(result, Tensor):
        return result.detach(), None
    logprobs, entropies = result[0], result[1]
    return logprobs.detach(), None if entropies is None else entropies.detach()


def _joined(microbatches: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Lay microbatches end to end, padded to the longest; only what all of them have."""
    if not microbatches:
        return {}
    if len(microbatches) == 1:
        return dict(microbatches[0])
    common = set.intersection(*(set(microbatch) for microbatch in microbatches))
    length = max((microbatch["mask"].shape[1] for microbatch in microbatches), default=0)
    joined = {}
    for name in common:
        arrays = [microbatch[name] for microbatch in microbatches]
        if arrays[0].ndim == 2 and name not in LABELS:  # noqa: PLR2004 - (B, T)
            arrays = [torch.nn.functional.pad(array, (0, length - array.shape[1])) for array in arrays]
        joined[name] = torch.cat(arrays)
    return joined
