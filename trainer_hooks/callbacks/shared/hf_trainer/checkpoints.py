"""Keeps track of the checkpoints that a Hugging Face Trainer has saved, and of which one is healthy."""

import json
import math
from pathlib import Path
from typing import Any

__all__ = ["STOP_FILE", "TrainerCheckpoints"]

STOP_FILE = "rlvitals_stopped.json"


class TrainerCheckpoints:
    """The checkpoints of one training, and the stop file that it leaves when an alert stops it.

    Args:
        folder: The trainer's output folder.
        resumed_step: The step that the training resumes from; 0 where it begins. That checkpoint counts as healthy,
            unless a stop file from before names an earlier one.
    """

    def __init__(self, folder: Path, *, resumed_step: int) -> None:
        self._folder = folder
        # A training that begins at step 0 does not read the stop file: it would be another training's.
        named_step, named = self._read_stop_file() if resumed_step else (0, None)
        self._named_before: str | None = named
        self._resumed_step = 0 if named_step < resumed_step else resumed_step
        self._steps = [resumed_step] if resumed_step else []
        self._saved = list(self._steps)

    def note(self, step: int, *, may_be_healthy: bool = True) -> None:
        """Record that the checkpoint of a step was saved; one of a run that is sick is never healthy."""
        self._saved.append(step)
        if may_be_healthy:
            self._steps.append(step)

    def step_lost_by_saving(self, *, limit: int | None, before: int) -> int | None:
        """Return the newest saved step before another if one more checkpoint makes the Trainer delete it, else None.

        The result is the same on every rank, because it depends on no verdict.

        Args:
            limit: The number of checkpoints that the Trainer keeps; None or 0 where it keeps all.
            before: The step at which the alert opened.
        """
        newest = max((step for step in self._saved if step < before), default=None)
        if not limit or newest is None:
            return None
        later = sum(step > newest for step in self._saved)
        return newest if later == limit - 1 else None

    def forget_after(self, judged_step: int | None) -> None:
        """Forget what was saved after the newest healthy step of a run that is sick now, even if it recovers later."""
        last = max(self._resumed_step, judged_step or 0)
        self._steps = [step for step in self._steps if step <= last]

    def healthy(self, *, judged_step: int | None, before: int) -> str | None:
        """Return the newest healthy checkpoint that still exists, or None.

        Args:
            judged_step: The newest step that the collector found healthy; None where there is none yet.
            before: The step at which the alert that stops the training opened.
        """
        last = min(max(self._resumed_step, judged_step or 0), before - 1)
        paths = [self._folder / f"checkpoint-{step}" for step in reversed(self._steps) if step <= last]
        return next((str(path) for path in paths if path.is_dir()), None)

    def write_stop_file(self, step: int, *, reason: str, healthy: str | None) -> None:
        """Write why the training was stopped; without a healthy checkpoint, repeat that of the previous stop file.

        Raises:
            OSError: If the file cannot be written.
        """
        content = {"step": step, "reason": reason, "last_healthy_checkpoint": healthy or self._named_before}
        (self._folder / STOP_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def _read_stop_file(self) -> tuple[float, str | None]:
        """Return step and path of the healthy checkpoint that the stop file names; (∞, None) where it names none."""
        try:
            content: Any = json.loads((self._folder / STOP_FILE).read_text(encoding="utf-8"))
            path = Path(content["last_healthy_checkpoint"])
            step = int(path.name.rpartition("-")[2])
        except (OSError, ValueError, TypeError, KeyError):
            return math.inf, None
        return (step, str(path)) if path.is_dir() else (math.inf, None)
