"""Checkpoints on disk: everything a run needs to go on to the last bit as if it had never stopped."""

import re
from dataclasses import asdict
from pathlib import Path

import torch

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.train import Trainer

__all__ = ["Checkpoints"]

FREE_IN_THE_RUN = {"steps", "lambda_", "gate", "mask_answer", "on_acceleration", "max_rollbacks"}
FREE_AROUND_IT = {"resume", "checkpoints", "checkpoint_every", "url", "project", "run", "log", "cache", "threads"}
"""Settings that may differ between the run that wrote a checkpoint and the one that goes on from it."""

KEPT = 20


class Checkpoints:
    """A folder of checkpoints, one file a step, the newest few of them kept.

    Args:
        directory: Where they are; made when the first is written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def save(self, trainer: Trainer) -> Path:
        """Write the trainer's state under its step; a file is there whole or not at all."""
        path = self.directory / f"step-{trainer.step_number:06d}.pt"
        self.directory.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        torch.save({"settings": _settings(trainer.config)} | trainer.state(), part)
        part.replace(path)
        for old in self._all()[:-KEPT]:
            old.unlink()
        return path

    def newest(self, *, before: int | None = None) -> Path | None:
        """Give the newest checkpoint, or the newest of a step below ``before``; None where there is none."""
        found = [path for path in self._all() if before is None or _step(path) < before]
        return found[-1] if found else None

    def load(self, trainer: Trainer, path: Path) -> None:
        """Bring a trainer to the state that was saved.

        Raises:
            ValueError: If the checkpoint comes from another configuration; the message names what differs.
        """
        state = torch.load(path, weights_only=True)
        saved, wanted = state.pop("settings"), _settings(trainer.config)
        different = [name for name in wanted if saved.get(name) != wanted[name]]
        if different:
            named = ", ".join(f"{name} {saved.get(name)!r} there and {wanted[name]!r} here" for name in different)
            raise ValueError(f"checkpoint {path} must come from the same configuration, got {named}")
        trainer.load_state(state)

    def _all(self) -> list[Path]:
        return sorted(self.directory.glob("step-*.pt"))


def _settings(config: Config) -> dict[str, object]:
    return {name: value for name, value in asdict(config).items() if name not in FREE_IN_THE_RUN | FREE_AROUND_IT}


def _step(path: Path) -> int:
    return int(re.sub(r"\D", "", path.stem))
