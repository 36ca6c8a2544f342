"""Reads what any Hugging Face Trainer computes at a step: loss, gradient norm and learning rate.

Methods are wrapped on the trainer object. Nothing here runs a model, draws a random number, communicates with another
rank or changes a tensor.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.method_wrappers import Method, MethodWrappers
from trainer_hooks.callbacks.shared.naming import TRANSFORMERS, canonical
from trainer_hooks.probes.paired import Paired
from trainer_hooks.probes.recomputed import Recomputed

__all__ = ["StepCapture"]


class StepCapture:
    """Collects the numbers of one step of a trainer.

    Args:
        trainer: A transformers Trainer.
        guard: Swallows and counts errors of this package.

    Attributes:
        on_error: Called when an exception ends a microbatch, before the trainer sees it.
    """

    names: Mapping[str, str] = TRANSFORMERS
    prefix = "transformers"

    def __init__(self, trainer: Any, guard: Guard) -> None:
        self.on_error: Callable[[], None] | None = None
        self._trainer = trainer
        self._guard = guard
        self._wrappers = MethodWrappers()
        self._losses: list[Tensor] = []
        self._grad_norm: Tensor | float | None = None
        self._learning_rate: float | None = None

    def install(self) -> None:
        """Wrap the methods that the trainer has."""
        self._wrappers.wrap(self._trainer, "training_step", self._around_training_step)
        self._wrappers.wrap(self._trainer.accelerator, "clip_grad_norm_", self._around_clipping)

    def remove(self) -> None:
        """Restore the trainer's own methods."""
        self._wrappers.restore()

    def begin_step(self) -> None:
        """Clear the numbers of the last step."""
        self._losses.clear()
        self._grad_norm = self._learning_rate = None

    def end_step(self) -> None:
        """Do what follows the log of a step; nothing for a plain trainer."""

    def before_update(self) -> None:
        """Do what every rank has to do before the weights change; nothing for a plain trainer."""

    def paired_scores(self) -> Sequence[Paired]:
        """Return tokens scored before and after the update, once the weights have changed; none for a plain trainer."""
        return ()

    def recomputed_scores(self) -> Sequence[Recomputed]:
        """Return the step's numbers that were computed again before the update; none for a plain trainer."""
        return ()

    def note_learning_rate(self, value: float) -> None:
        """Keep the learning rate of this step; call it before the schedule advances."""
        self._learning_rate = value

    def scalars(self) -> dict[str, Any]:
        """Return this rank's numbers by canonical name; some may be tensors that are still being computed."""
        numbers: dict[str, Any] = {}
        if self._losses:
            # Summed over microbatches as the trainer does, but before it filters NaN out.
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
        """Return the step's arguments of `trainer_hooks.Rollouts`; None for a plain trainer."""
        return None

    def logged_numbers(self, logs: Mapping[str, object]) -> dict[str, float]:
        """Return the logged numbers that this class does not read itself: evaluations, and metrics of the user."""
        numbers = canonical(logs, self.names, prefix=self.prefix)
        known = set(self.scalars())
        return {name: value for name, value in numbers.items() if name not in known}

    def _around_training_step(self, original: Method) -> Method:
        @functools.wraps(original)
        def training_step(*args: Any, **kwargs: Any) -> Any:
            try:
                loss = original(*args, **kwargs)
            except BaseException:
                with self._guard:
                    if self.on_error is not None:
                        self.on_error()
                raise
            with self._guard:
                self._losses.append(loss.detach().float())
            return loss

        return training_step

    def _around_clipping(self, original: Method) -> Method:
        @functools.wraps(original)
        def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
            norm = original(*args, **kwargs)
            with self._guard:
                # Reading a sharded norm would need a collective; the trainer logs that norm later.
                if self._grad_norm is None and norm is not None and not hasattr(norm, "full_tensor"):
                    # Converted to a number when the step is over: until then nothing waits for the device.
                    self._grad_norm = norm
            return norm

        return clip_grad_norm_
