"""Remembers which checkpoints a transformers Trainer has saved, and which of them to go back to."""

import json
import math
from pathlib import Path
from typing import Any

__all__ = ["STOP_FILE", "TrainerCheckpoints"]

STOP_FILE = "rlvitals_stopped.json"


class TrainerCheckpoints:
    """The checkpoints of one training, and the word that it leaves when it is stopped.

    Args:
        folder: The trainer's output folder.
        resumed_step: The step that the training goes on from; 0 where it begins. That checkpoint counts as healthy,
            unless the word that was left when the training was stopped names an earlier one.
    """

    def __init__(self, folder: Path, *, resumed_step: int) -> None:
        self._folder = folder
        # A training that begins does not ask: whatever lies there is another one's.
        told_step, told = self._word() if resumed_step else (0, None)
        self._told_before: str | None = told
        self._resumed_step = 0 if told_step < resumed_step else resumed_step
        self._steps = [resumed_step] if resumed_step else []

    def note(self, step: int) -> None:
        """Remember the checkpoint of a step."""
        self._steps.append(step)

    def healthy(self, *, judged_step: int | None, before: int) -> str | None:
        """Give the newest checkpoint to go back to that is still there, or None.

        Args:
            judged_step: The newest step that the collector found healthy, None before.
            before: The step at which the alert opened that the training stops for.
        """
        last = min(max(self._resumed_step, judged_step or 0), before - 1)
        paths = [self._folder / f"checkpoint-{step}" for step in reversed(self._steps) if step <= last]
        return next((str(path) for path in paths if path.is_dir()), None)

    def leave_word(self, step: int, *, reason: str, healthy: str | None) -> None:
        """Write why the training was stopped; without a healthy checkpoint of its own, keep that of the one resumed.

        Raises:
            OSError: If it cannot be written.
        """
        told = {"step": step, "reason": reason, "last_healthy_checkpoint": healthy or self._told_before}
        (self._folder / STOP_FILE).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")

    def _word(self) -> tuple[float, str | None]:
        """Give the step and the path of the checkpoint that the training was to go on from, if it is there."""
        try:
            told: Any = json.loads((self._folder / STOP_FILE).read_text(encoding="utf-8"))
            path = Path(told["last_healthy_checkpoint"])
            step = int(path.name.rpartition("-")[2])
        except (OSError, ValueError, TypeError, KeyError):
            return math.inf, None
        return (step, str(path)) if path.is_dir() else (math.inf, None)
