"""Finds updates that a loop has skipped, as a GradScaler does: the optimiser does not step, so no hook sees them."""

import math
from collections.abc import Callable, Mapping
from typing import SupportsFloat

import torch

__all__ = ["SkippedUpdates"]

NOTES_WITHOUT_A_STEP = 200
"""Notes of the same number after which a missing optimiser step is reported; more than most loops accumulate."""

NOTES_BEFORE_A_READ = 32
"""Notes of the same number after which a loss is read on its device, which makes the training wait for the device."""


class SkippedUpdates:
    """Watches the numbers that are noted for the next optimiser step, and says when they belong to a failed update.

    Args:
        warn: Called once if the optimiser does not step while the same number is noted very often.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self.end()

    def end(self) -> None:
        """Begin anew after an optimiser step, or after the loop went back."""
        self._notes, self._has_failed = 0, False

    def has_failed(self, pending: Mapping[str, SupportsFloat]) -> bool:
        """Return whether the loss of a skipped update is NaN or infinite; True once until the optimiser steps.

        The number of the step stays when it is logged: other ranks may have a finite loss, and all must count the same
        steps. An infinite gradient norm alone is no failure, because a GradScaler begins with too large a scale.

        Args:
            pending: The numbers noted since the last step.
        """
        if self._has_failed or not any(_is_not_finite(value) for value in _losses(pending)):
            return False
        self._has_failed = True
        return True

    def note(self, pending: Mapping[str, SupportsFloat], noted: Mapping[str, SupportsFloat]) -> bool:
        """Return `has_failed` where new numbers replace a loss, whose update was skipped or belongs to the same step.

        Args:
            pending: The numbers noted since the last step.
            noted: The numbers that are noted now.
        """
        if not any(name in noted for name in pending):
            return False
        self._notes += 1
        if self._notes == NOTES_WITHOUT_A_STEP:
            self._warn(
                f"the optimiser has not stepped while the same numbers were noted {NOTES_WITHOUT_A_STEP} times. Unless "
                "the loop accumulates so many batches, its updates are skipped, as a GradScaler does where gradients "
                "are NaN or infinite; a skipped update is no step of the run (docs/trainers/loops.md)"
            )
        may_read = self._notes > NOTES_BEFORE_A_READ or not any(_is_on_device(value) for value in _losses(pending))
        return may_read and bool(_losses(noted)) and self.has_failed(pending)


def _losses(scalars: Mapping[str, SupportsFloat]) -> list[SupportsFloat]:
    return [value for name, value in scalars.items() if isinstance(name, str) and name.startswith("loss/")]


def _is_on_device(value: SupportsFloat) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type != "cpu"


def _is_not_finite(value: SupportsFloat) -> bool:
    try:
        return not math.isfinite(value.detach() if isinstance(value, torch.Tensor) else value)
    except Exception:  # noqa: BLE001 - what is no number is counted when it is logged
        return False
