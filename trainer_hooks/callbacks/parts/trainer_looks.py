"""Lets model monitors look into the model of a transformers Trainer at the right moments of a step."""

import functools
from typing import Any

from trainer_hooks.callbacks.parts.guard import Guard, Wrappings
from trainer_hooks.callbacks.parts.step_capture import Method
from trainer_hooks.model_monitors import ModelMonitors

__all__ = ["TrainerLooks"]


class TrainerLooks:
    """Asks model monitors before gradients are clipped, before the update, and after it.

    Args:
        monitors: What to measure, and when.
        trainer: The trainer whose model it is.
        guard: Takes our errors.
    """

    def __init__(self, monitors: ModelMonitors, trainer: Any, guard: Guard) -> None:
        self._monitors = monitors
        self._guard = guard
        self._accelerator = trainer.accelerator
        self._wrappings = Wrappings()
        monitors.attach(trainer.model)
        self._wrappings.wrap(self._accelerator, "clip_grad_norm_", self._around_clipping)

    def begin_step(self, step: int) -> None:
        """Start to listen, where it is this step's turn."""
        self._monitors.begin_step(step)

    def before_update(self) -> None:
        """Look at the gradients, if that was not possible before they were clipped."""
        self._monitors.note_gradients()

    def end_step(self) -> dict[str, float]:
        """Give the step's signals."""
        return self._monitors.end_step()

    def remove(self) -> None:
        """Let go of the trainer and its model."""
        self._wrappings.undo()
        self._monitors.remove()

    def _around_clipping(self, original: Method) -> Method:
        @functools.wraps(original)
        def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
            with self._guard:
                # Half precision scales its gradients, and clipping takes the scale off first.
                if getattr(self._accelerator, "scaler", None) is None:
                    self._monitors.note_gradients()
            return original(*args, **kwargs)

        return clip_grad_norm_
