"""LLDS for TRL: a GRPOTrainer whose loss has a likelihood-preserving regulariser. Everything else is TRL's.

trainer = LLDSGRPOTrainer(..., args=LLDSConfig(..., num_iterations=2))
"""

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer
from trl import __version__ as version

from trainer_hooks.losses.regularisers.answer_marks import AnswerMarks
from trainer_hooks.losses.regularisers.llds import (
    LLDS_PRESETS,
    Gate,
    adaptive_answer_weight,
    llds_loss,
    require_settings,
)
from trainer_hooks.losses.token_arrays import action_index

__all__ = ["LLDSConfig", "LLDSGRPOTrainer", "preset_settings"]

ONE_UPDATE = (
    "LLDS does nothing with one update a rollout, because likelihoods have not moved yet; set num_iterations=2, or "
    "steps_per_generation above gradient_accumulation_steps"
)
FUSED = "LLDS does nothing where the loss is fused and hides its token log-probabilities; turn the fused loss off"

# These are columns of the rollout batch, so TRL's own shuffling and splitting give each microbatch its part.
COUNTED = "llds_counted_tokens"
CALLS = "llds_tool_calls"
ANSWER = "llds_answer_mask"

logger = logging.getLogger("trainer_hooks")


@dataclass
class LLDSConfig(GRPOConfig):  # type: ignore[misc]
    """TRL's GRPOConfig with the settings of LLDS.

    Args:
        llds_coef: λ of eq. 7, finite and ≥ 0. The paper uses 0.1; with 0.01 the collapse came later, and with 0 it was
            unchanged.
        llds_gate: The part whose likelihood must have fallen for its tokens to be penalised: ``"response"``,
            ``"action"`` (v2 of the paper, which reports it as the better one) or ``"none"``.
        llds_normaliser: ``"preserved"`` divides the penalty by the action tokens of responses with A ≥ 0 (eq. 5 as
            printed), ``"all"`` by all action tokens (the authors' release).
        llds_answer_begin: Text that opens the final answer, such as ``<answer>``. If this and the end are given, the
            answer's tokens are not penalised (LLDS-MA, eq. 6), to encourage more tool use.
        llds_answer_end: Text that closes it, such as ``</answer>``.
        llds_answer_weight: Factor on the penalty of the answer's tokens, in [0, 1]; 0 is eq. 6.
        llds_answer_adaptive: Multiply that factor by the mean number of tool calls per response beyond the first, up
            to 1, as the authors' release does. Every tool feedback inside a completion counts as a call. The factor
            must be above 0.
    """

    llds_coef: float = field(default=0.1, metadata={"help": "Weight λ of the LLDS regulariser."})
    llds_gate: str = field(default="action", metadata={"help": "Gate of LLDS: response, action or none."})
    llds_normaliser: str = field(default="preserved", metadata={"help": "Divisor of LLDS: preserved or all."})
    llds_answer_begin: str | None = field(default=None, metadata={"help": "Text that opens the final answer."})
    llds_answer_end: str | None = field(default=None, metadata={"help": "Text that closes the final answer."})
    llds_answer_weight: float = field(default=0.0, metadata={"help": "Factor on the penalty of answer tokens."})
    llds_answer_adaptive: bool = field(
        default=False, metadata={"help": "Multiply that factor by the tool calls beyond one."}
    )

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ValueError: If λ is negative or not finite, the gate or the divisor is unknown, only one mark of the answer
                is given, a mark is empty, an adaptive weight is 0, or TRL's loss would be Liger's. Liger is also
                refused where λ is 0, because λ may be raised while training.
        """
        super().__post_init__()
        require_settings(
            coef=self.llds_coef,
            gate=self.llds_gate,
            answer_weight=self.llds_answer_weight,
            answer_adaptive=self.llds_answer_adaptive,
            prefix="llds_",
        )
        if self.llds_normaliser not in ("preserved", "all"):
            raise ValueError(f'llds_normaliser must be "preserved" or "all", got {self.llds_normaliser!r}')
        if self.llds_answer_weight and self.llds_answer_begin is None:
            raise ValueError(
                "llds_answer_weight needs the marks of the answer: give llds_answer_begin and llds_answer_end"
            )
        if (self.llds_answer_begin is None) != (self.llds_answer_end is None):
            raise ValueError("llds_answer_begin and llds_answer_end must be given together, or neither")
        if "" in (self.llds_answer_begin, self.llds_answer_end):
            raise ValueError("llds_answer_begin and llds_answer_end must not be empty: no answer would be found")
        flags = ("use_liger_loss", "use_liger_kernel")
        asked = next((flag for flag in flags if getattr(self, flag, False)), None)
        # Where TRL has no fused loss of its own, the token log-probabilities can be read also with Liger's kernels.
        if asked and hasattr(GRPOTrainer, "compute_liger_loss"):
            raise ValueError(
                f"LLDS needs the token log-probabilities of the loss, which Liger's fused loss hides in TRL {version}, "
                f"got {asked}=True; set it to False"
            )


class LLDSGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer whose loss is L_GRPO + λ L_LLDS (eq. 7 of arXiv 2512.04220).

    The penalty is that of `trainer_hooks.losses.llds_loss`, however an update's responses are split into microbatches
    and ranks. Its N is counted over the whole rollout batch. If the batch has several updates
    (``steps_per_generation``), they share N evenly. TRL logs the penalty as ``llds_loss``. ``trainer.llds_coef`` may be
    changed while training, on every rank at the same step, because the ranks gather N where it is not 0.

    Note:
        LLDS has an effect from the second update on a rollout. With one update per rollout it does nothing and warns:
        set ``num_iterations=2``, or ``steps_per_generation`` above ``gradient_accumulation_steps``.
    """

    _tag_names = ("trl", "grpo", "llds")

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - TRL's arguments, whatever they are
        super().__init__(*args, **kwargs)
        self.llds_coef: float = self.args.llds_coef
        self._gate: Gate = self.args.llds_gate
        self._is_in_loss = False
        self._is_fused = False
        self._scores: Tensor | None = None
        self._marks: AnswerMarks | None = None
        if self.args.llds_answer_begin is not None:
            begin, end = self.args.llds_answer_begin, self.args.llds_answer_end
            self._marks = AnswerMarks(self.processing_class.decode, begin, end)
        if self.llds_coef and self.why_inert:
            warnings.warn(self.why_inert, stacklevel=2)

    @property
    def why_inert(self) -> str | None:
        """Why LLDS would change nothing here, whatever λ is, and what to do about it; None where it has an effect."""
        if self.args.steps_per_generation * self.num_iterations <= self.args.gradient_accumulation_steps:
            return ONE_UPDATE
        return FUSED if self._is_fused else None

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - TRL's own
        result = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._is_in_loss:
            self._scores = result[0]
        return result

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:  # noqa: ANN401 - TRL's rows
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        mask = _action_mask(batch)
        lengths = mask.sum(dim=1)
        counted = lengths if self.args.llds_normaliser == "all" else lengths * (_advantages(batch, mask) >= 0)
        batch[COUNTED] = counted.sum().expand(len(mask))
        if self._marks is not None:
            batch[CALLS] = _tool_calls(mask).float().mean().expand(len(mask))
            batch[ANSWER] = self._marks.mask(batch["completion_ids"], mask)
        return batch

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any]) -> Tensor:
        self._is_in_loss, self._scores = True, None
        try:
            loss: Tensor = super()._compute_loss(model, inputs)
        finally:
            self._is_in_loss = False
        logprobs = self._take_scores()
        old = inputs.get("old_per_token_logps")
        if self.model.training and logprobs is None:
            self._note_fused_loss()
        if not self.model.training or old is None or logprobs is None or not self.llds_coef:
            return loss
        penalty = self._penalty(logprobs, old, inputs)
        # Up to TRL 0.20, transformers divides the loss by the accumulation steps after this method.
        scale = self.current_gradient_accumulation_steps if self._is_scaled() else 1
        total: Tensor = loss + self.llds_coef * penalty / scale
        return total

    def _is_scaled(self) -> bool:
        return bool(getattr(self, "loss_is_scaled_for_ga", None) or self.compute_loss_func)

    def _note_fused_loss(self) -> None:
        if not self._is_fused and self.llds_coef:
            logger.warning(FUSED)
        self._is_fused = True

    def _take_scores(self) -> Tensor | None:
        scores, self._scores = self._scores, None
        return scores

    def _penalty(self, logprobs: Tensor, old: Tensor, inputs: dict[str, Any]) -> Tensor:
        """Divide a microbatch's sum by the mean N over all microbatches and ranks, so that the mean of all is eq. 5."""
        mask = _action_mask(inputs)
        arrays = logprobs, old, mask, _advantages(inputs, mask)
        answer = inputs.get(ANSWER)
        lost = llds_loss(*arrays, gate=self._gate, answer_mask=answer, normaliser=1)
        whole, calls = lost, lost.new_zeros(())
        if answer is not None and self.args.llds_answer_weight:
            whole = llds_loss(*arrays, gate=self._gate, normaliser=1)
            calls = inputs[CALLS][0].to(lost.dtype)
        sums = torch.stack([lost.detach(), inputs[COUNTED][0].to(lost.dtype), whole.detach(), calls])
        losts, counts, wholes, all_calls = self.accelerator.gather(sums[None]).T
        weight = self.args.llds_answer_weight
        if self.args.llds_answer_adaptive:
            weight = adaptive_answer_weight(weight, all_calls.mean().item())
        if weight:
            # The penalty is linear in the weight of the answer: 0 leaves its tokens out, 1 treats them as all others.
            lost = (1 - weight) * lost + weight * whole
            losts = (1 - weight) * losts + weight * wholes
        mean_count = counts.sum().clamp(min=1) / (len(counts) * self.args.steps_per_generation)
        self._metrics["train"]["llds_loss"].append((losts.mean() / mean_count).item())
        shared: Tensor = lost / mean_count
        return shared


def preset_settings(name: str) -> dict[str, Any]:
    """Return a preset of `trainer_hooks.losses.LLDS_PRESETS` as settings of `LLDSConfig`.

    Args:
        name: ``"paper"``, eq. 5 as printed with λ = 0.1; or ``"release"``, the authors' training script.

    Raises:
        ValueError: If there is no such preset.
    """
    if name not in LLDS_PRESETS:
        raise ValueError(f"a preset of LLDS must be one of {', '.join(LLDS_PRESETS)}, got {name!r}")
    preset = LLDS_PRESETS[name]
    return {"llds_coef": preset.coef, "llds_gate": preset.gate, "llds_normaliser": preset.normaliser}


def _tool_calls(mask: Tensor) -> Tensor:
    """Count the feedback blocks between actions of each response, shape ``(B,)``."""
    return action_index(mask).amax(dim=1).clamp(min=0)


def _action_mask(batch: Mapping[str, Any]) -> Tensor:
    mask: Tensor = batch["completion_mask"].bool()
    # TRL pads it with 1.
    return mask & batch["tool_mask"].bool() if "tool_mask" in batch else mask


def _advantages(batch: Mapping[str, Any], mask: Tensor) -> Tensor:
    """Return one advantage per response, also where TRL has one per token."""
    advantages: Tensor = batch["advantages"]
    return advantages if advantages.ndim == 1 else (advantages * mask).sum(dim=1)
