"""Breaks the optimiser, the batch or the weights. Measures the true quality."""

import math
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from benchmarks.detection.induced.advantages import broken_advantages
from benchmarks.detection.induced.failures import Cause, Failure
from benchmarks.detection.induced.setting import Setting
from benchmarks.detection.induced.task import Problems, quality

__all__ = ["Inducing"]

UNCLIPPED = 1e6


class Inducing(TrainerCallback):
    """Keeps the present step and the true quality, and breaks the optimiser if that is the failure."""

    def __init__(self, setting: Setting, failure: Failure | None, held_out: Problems) -> None:
        self.trainer: Any = None
        self.qualities: list[float] = []
        self.step = 1
        self._setting, self._failure, self._held_out = setting, failure, held_out
        self._kept: list[torch.Tensor] = []  # gradients that were not zeroed

    @property
    def amount(self) -> float:
        """The share of the failure's full level at the present step."""
        return self._failure.amount(self.step, self._setting.onset) if self._failure is not None else 0.0

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002 - transformers' signature
        **_: object,
    ) -> None:
        """Set the step, and make the changes of a failure of the optimiser."""
        self.step = state.global_step + 1
        if self._failure is None or not self.amount:
            return
        trainer, cause = self.trainer, self._failure.cause
        if cause is Cause.LEARNING_RATE:
            rate = self._setting.options["learning_rate"] * self._failure.level**self.amount
            trainer.lr_scheduler.base_lrs = [rate for _ in trainer.optimizer.param_groups]
            for group in trainer.optimizer.param_groups:
                group["lr"] = rate
        elif cause is Cause.STALE_EPOCHS:
            trainer.num_iterations = int(self._failure.level)
            trainer.epsilon_low = trainer.epsilon_high = UNCLIPPED
            args.max_grad_norm = UNCLIPPED
        elif cause is Cause.POISONED_BATCH:
            args.max_grad_norm = UNCLIPPED
        elif cause is Cause.OPTIMISER_RESET:
            trainer.optimizer.state.clear()

    def on_pre_optimizer_step(
        self,
        args: TrainingArguments,  # noqa: ARG002 - transformers' signature
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **_: object,
    ) -> None:
        """Keep the clipped gradients if the failure is that they are not set to zero."""
        if self._failure is not None and self._failure.cause is Cause.UNZEROED_GRADIENTS and self.amount:
            self._kept = [torch.zeros(()) if g is None else g.clone() for g in self._gradients()]

    def add_kept(self) -> None:
        """Add the gradients of the previous step to those of a backward pass."""
        with torch.no_grad():
            for gradient, kept in zip(self._gradients(), self._kept, strict=False):
                if gradient is not None:
                    gradient.add_(kept)

    def _gradients(self) -> list[torch.Tensor | None]:
        return [value.grad for value in self.trainer.model.parameters()]

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002 - transformers' signature
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **_: object,
    ) -> None:
        """Round the weights if that is the failure, and measure the quality."""
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        if self._failure is not None and self._failure.cause is Cause.LOW_PRECISION and self.amount:
            _round_weights(model, int(self._failure.level))
        found = quality(model, self._held_out)
        self.qualities.append(found if math.isfinite(found) else 0.0)

    def advantages(self, right: torch.Tensor) -> torch.Tensor:
        """Return the advantages that the step trains on."""
        if self._failure is None:
            return right
        age, group = self.step - self._setting.onset, self._setting.options["num_generations"]
        return broken_advantages(right, self._failure, self.amount, age=age, group=group)


@torch.no_grad()
def _round_weights(model: torch.nn.Module, bits: int) -> None:
    for value in model.parameters():
        mantissa, exponent = torch.frexp(value)
        value.copy_(torch.ldexp(torch.round(mantissa * 2 ** (bits + 1)) / 2 ** (bits + 1), exponent))
