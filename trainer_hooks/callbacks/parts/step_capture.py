"""Catches what any transformers Trainer computes at a step: loss, gradient norm, learning rate.

Methods are wrapped on the trainer object. Nothing here runs a model, draws a random number, talks to another rank or
changes a tensor.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trainer_hooks.callbacks.parts.guard import Guard, Wrappings
from trainer_hooks.callbacks.parts.naming import TRANSFORMERS, canonical
from trainer_hooks.probes.paired import Paired

__all__ = ["Method", "StepCapture"]

Method = Callable[..., Any]
# Of the run and not of a step, or known better from elsewhere.
LEFT_OUT = ("epoch", "train_", "total_flos", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second")


class StepCapture:
    """Collects one step of a trainer.

    Args:
        trainer: A transformers Trainer.
        guard: Takes our errors.
    """

    names: Mapping[str, str] = TRANSFORMERS
    prefix = "transformers"

    def __init__(self, trainer: Any, guard: Guard) -> None:
        self._trainer = trainer
        self._guard = guard
        self._wrappings = Wrappings()
        self._losses: list[Tensor] = []
        self._grad_norm: Tensor | float | None = None
        self._learning_rate: float | None = None

    def install(self) -> None:
        """Wrap what the trainer has."""
        self._wrappings.wrap(self._trainer, "training_step", self._around_training_step)
        self._wrappings.wrap(self._trainer.accelerator, "clip_grad_norm_", self._around_clipping)

    def remove(self) -> None:
        """Give the trainer its own methods back."""
        self._wrappings.undo()

    def begin_step(self) -> None:
        """Forget the last step."""
        self._losses.clear()
        self._grad_norm = self._learning_rate = None

    def before_update(self) -> None:
        """Do what has to be done on every rank before the weights change."""

    def paired(self) -> Sequence[Paired]:
        """Give what the update did to tokens that were scored before it, once the weights have changed."""
        return ()

    def note_learning_rate(self, value: float) -> None:
        """Take the learning rate of this step, before the schedule moves on."""
        self._learning_rate = value

    def scalars(self) -> dict[str, Any]:
        """Give this rank's numbers of the step by canonical names; they may be tensors, which nobody has waited for."""
        numbers: dict[str, Any] = {}
        if self._losses:
            # Summed over microbatches as the trainer does, before it filters NaN out.
            first, *others = self._losses
            numbers["loss/policy"] = torch.stack(self._losses).sum() if others else first
        if self._learning_rate is not None:
            numbers["lr"] = self._learning_rate
        if self._grad_norm is not None:
            numbers["grad/norm"] = self._grad_norm
            limit = self._trainer.args.max_grad_norm
            if limit:
                numbers["grad/clipped_frac"] = self._grad_norm > limit
        return numbers

    def rollouts(self) -> dict[str, Any] | None:
        """Give the step's arguments of `trainer_hooks.Rollouts`; a plain trainer has none."""
        return None

    def logged(self, logs: Mapping[str, object]) -> dict[str, float]:
        """Give what the trainer logs beyond the numbers caught here: its own metrics, evaluations, the user's."""
        others = {name: value for name, value in logs.items() if not name.startswith(LEFT_OUT)}
        numbers = canonical(others, self.names, prefix=self.prefix)
        caught = set(self.scalars())
        return {name: value for name, value in numbers.items() if name not in caught}

    def _around_training_step(self, original: Method) -> Method:
        @functools.wraps(original)
        def training_step(*args: Any, **kwargs: Any) -> Any:
            loss = original(*args, **kwargs)
            with self._guard:
                self._losses.append(loss.detach().float())
            return loss

        return training_step

    def _around_clipping(self, original: Method) -> Method:
        @functools.wraps(original)
        def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
            norm = original(*args, **kwargs)
            with self._guard:
                # A sharded norm would need a collective to be read; the trainer logs it later.
                if self._grad_norm is None and norm is not None and not hasattr(norm, "full_tensor"):
                    # Made a number when the step is over: until then the device need not be waited for.
                    self._grad_norm = norm
            return norm

        return clip_grad_norm_
