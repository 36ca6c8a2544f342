"""Collects the microbatches of a step, and makes the arguments of `trainer_hooks.Rollouts` from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainer_hooks.callbacks.shared.microbatches import concatenate_arrays
from trainer_hooks.callbacks.trl.known_code import is_known_code
from trainer_hooks.callbacks.trl.labels import ResponseLabels
from trainer_hooks.callbacks.trl.loss_scores import ScorerCall

__all__ = ["Microbatch", "StepRollouts"]

# Columns of the rollout batch, so that TRL's own shuffling and splitting keep them aligned with the responses.
OLD, REF = "rlvitals_old_logprobs", "rlvitals_ref_logprobs"
PASSES_WITH_REFERENCE = 2
BEFORE_TRAINING = -1
# These losses clip the ratio as PPO does; other losses use ε for something else.
CLIPPED_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Microbatch:
    """What the loss of a microbatch has computed for its responses.

    Attributes:
        mask: 1 on the policy's tokens, ``(B, T)``.
        logprobs: Log-probabilities, ``(B, T)``, nats; those of the rollout where the loss hides its own.
        entropies: Entropies, ``(B, T)``, nats.
        old: Log-probabilities that the rollout has computed, ``(B, T)``.
        is_stale: Whether updates lie between the policy that sampled the responses and this one.
        is_unmatched: Whether the loss has scored other rows than those of the microbatch.
        is_first: Whether it is the first microbatch of the step.
    """

    mask: Tensor
    logprobs: Tensor | None
    entropies: Tensor | None
    old: Tensor | None
    is_stale: bool
    is_unmatched: bool
    is_first: bool


class StepRollouts:
    """The responses of a step, as the losses of its microbatches see them.

    Args:
        trainer: A GRPOTrainer, an RLOOTrainer, or one like them.
        labels: Knows the rewards and the groups of the responses.
    """

    def __init__(self, trainer: Any, labels: ResponseLabels) -> None:
        self._trainer = trainer
        self._labels = labels
        # Of each microbatch of the step, whether updates lie between the policy that sampled it and this one.
        self._staleness: set[bool] = set()
        self._microbatches: list[dict[str, Tensor]] = []
        # The step after which the rollout batch was made. A second training of a trainer goes on with the batch of the
        # first one, until it makes its own.
        self._generated_at = 0 if getattr(trainer, "_buffered_inputs", None) is None else BEFORE_TRAINING

    @property
    def is_off_policy(self) -> bool:
        """Whether updates lie between a rollout and this step; otherwise all ratios are 1 by construction."""
        return True in self._staleness

    def begin_step(self) -> None:
        """Forget the microbatches of the last step."""
        self._microbatches.clear()
        self._staleness.clear()

    def attach(self, batch: dict[str, Any], logprobs: Sequence[Tensor] | None) -> None:
        """Add labels, and log-probabilities that TRL drops, as columns of the batch, which TRL shuffles and splits.

        Args:
            batch: The rollout batch.
            logprobs: The log-probabilities of each pass that has scored the batch while it was made, ``(B, T)``, nats.
        """
        self._generated_at = self._trainer.state.global_step
        is_in_order = self._labels.attach(batch)
        if is_in_order and logprobs and "old_logps" in batch and "old_per_token_logps" not in batch:
            # RLOO keeps only the sum of each response. The token log-probabilities were computed during the rollout,
            # and so were those of the reference model. The ones whose sums match are chosen on the device, so that
            # nothing waits for the device.
            table = torch.stack(list(logprobs))
            gaps = ((table * batch["completion_mask"]).sum(dim=2) - batch["old_logps"]).abs().amax(dim=1)
            place = gaps.argmin(dim=0, keepdim=True)
            batch[OLD] = table.index_select(0, place)[0]
            # A subclass may score other models too, and then it is not known which pass is that of the reference model.
            if len(table) == PASSES_WITH_REFERENCE and self._trainer.beta != 0:
                batch[REF] = table.index_select(0, 1 - place)[0]

    def add(self, inputs: Mapping[str, Any], call: ScorerCall | None, matched: ScorerCall | None) -> Microbatch:
        """Keep a microbatch whose loss was computed.

        Args:
            inputs: The microbatch.
            call: The call in which the loss has scored its policy; None if it hides it.
            matched: The same with the rows of the microbatch; None if the rows are others.
        """
        mask = inputs["completion_mask"]
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        old = inputs.get("old_per_token_logps", inputs.get(OLD))
        is_unmatched = call is not None and matched is None
        logprobs, entropies = (old, None) if matched is None else (matched.logprobs, matched.entropies)
        sampler = inputs.get("sampling_per_token_logps")
        if sampler is not None and logprobs is not None:
            # vLLM could not score these tokens. Like TRL, take them as equal to the trainer's own.
            sampler = torch.where(sampler.isnan(), logprobs if old is None else old, sampler)
        is_stale = old is not None and self._trainer.state.global_step > self._generated_at
        arrays = {
            # The step may have microbatches that are matched, and old ones would be of another policy.
            "logprobs": None if is_unmatched else logprobs,
            "mask": mask,
            "entropies": entropies,
            # Where a step mixes both, the ratio of a fresh token is 1, without the rounding between two passes.
            "old_logprobs": None if matched is None else old if is_stale else logprobs,
            "ref_logprobs": inputs.get("ref_per_token_logps", inputs.get(REF)),
            "sampler_logprobs": sampler,
            "advantages": inputs.get("advantages"),
            "token_ids": inputs.get("completion_ids"),
            **self._labels.columns_of(inputs),
        }
        is_first = not self._microbatches
        self._staleness.add(is_stale)
        self._microbatches.append({name: array.detach() for name, array in arrays.items() if array is not None})
        return Microbatch(
            mask=mask,
            logprobs=logprobs,
            entropies=entropies,
            old=old,
            is_stale=is_stale,
            is_unmatched=is_unmatched,
            is_first=is_first,
        )

    def arguments(self) -> dict[str, Any] | None:
        """Return the step's arguments of `trainer_hooks.Rollouts`, or None where no token was read."""
        arrays = concatenate_arrays(
            [
                {name: array for name, array in arrays.items() if self.is_off_policy or name != "old_logprobs"}
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
        return labelled | {"clip_range": self._clip_range()}

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
