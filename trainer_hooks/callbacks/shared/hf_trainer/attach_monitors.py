"""Runs model monitors at the right moments of a Hugging Face Trainer's step."""

import functools
from typing import Any

from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.method_wrappers import Method, MethodWrappers
from trainer_hooks.model_monitors import ModelMonitors

__all__ = ["TrainerModelMonitors"]


class TrainerModelMonitors:
    """Measures the trainer's model before gradients are clipped, before the update, and after it.

    Args:
        monitors: The measurements, and the steps at which they are made.
        trainer: The trainer whose model is measured.
        guard: Swallows and counts errors of this package.
    """

    def __init__(self, monitors: ModelMonitors, trainer: Any, guard: Guard) -> None:
        self._monitors = monitors
        self._guard = guard
        self._accelerator = trainer.accelerator
        self._wrappers = MethodWrappers()
        monitors.attach(trainer.model)
        self._wrappers.wrap(self._accelerator, "clip_grad_norm_", self._around_clipping)

    def begin_step(self, step: int) -> None:
        """Attach the hooks on the model, where this step is to be measured."""
        self._monitors.begin_step(step)

    def before_update(self) -> None:
        """Measure the gradients, where that was not possible before they were clipped."""
        self._monitors.measure_gradients()

    def end_step(self) -> dict[str, float]:
        """Return the step's signals."""
        return self._monitors.end_step()

    def remove(self) -> None:
        """Restore the trainer's methods, and take the hooks off its model."""
        self._wrappers.restore()
        self._monitors.remove()

    def _around_clipping(self, original: Method) -> Method:
        @functools.wraps(original)
        def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
            with self._guard:
                # In half precision gradients are scaled, and clipping removes the scale first.
                if getattr(self._accelerator, "scaler", None) is None:
                    self._monitors.measure_gradients()
            return original(*args, **kwargs)

        return clip_grad_norm_
