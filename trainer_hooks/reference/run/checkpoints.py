"""Checkpoints on disk: the state that a run needs to continue bit for bit."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.run.trainer import Trainer
from trainer_hooks.reference.state_files import write_whole

__all__ = ["CheckpointError", "Checkpoints", "step_of"]

CHANGEABLE_OF_RUN = {
    "steps", "method", "lambda_", "on_acceleration", "rollback_lr", "max_rollbacks", "fork_steps", "fork_questions",
}  # fmt: skip
CHANGEABLE_OF_PROCESS = {
    "resume", "checkpoints", "checkpoint_every", "url", "project", "run", "log", "cache", "threads", "device",
    "matmul_precision", "texts", "retriever", "tool_timeout", "lld_epsilon", "probe_every", "probe_optimiser",
    "probe_sweep", "decompose_every", "recompute_every", "recompute_responses",
}  # fmt: skip
"""Settings that may differ between the run that wrote a checkpoint and the one that goes on from it."""

KEPT = 20
HEALTHY = "healthy"


class CheckpointError(ValueError):
    """A checkpoint cannot be read, or comes from another configuration; the message names what differs."""


class Checkpoints:
    """A folder of checkpoints, one file a step: the newest few, and the newest that is known to be healthy.

    Args:
        directory: The folder, which is made when the first checkpoint is written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def save(self, trainer: Trainer) -> Path:
        """Write the trainer's state under the number of its step, atomically.

        Raises:
            OSError: If it cannot be written, as on a full disk.
        """
        path = self.directory / f"step-{trainer.step_number:06d}.pt"
        self.directory.mkdir(parents=True, exist_ok=True)
        write_whole({"settings": _settings(trainer.config)} | trainer.state(), path)
        healthy = self.healthy()
        for old in self._all()[:-KEPT]:
            if old != healthy:
                old.unlink()
        return path

    def newest(self) -> Path | None:
        """Return the newest checkpoint; None where there is none."""
        found = self._all()
        return found[-1] if found else None

    def mark_healthy(self, path: Path) -> None:
        """Mark a checkpoint as one to roll back to, for this process and later ones."""
        part = self.directory / f"{HEALTHY}.part"
        part.write_text(path.name, encoding="utf-8")
        part.replace(self.directory / HEALTHY)

    def healthy(self) -> Path | None:
        """Return the newest checkpoint that was marked healthy; None where there is none."""
        mark = self.directory / HEALTHY
        path = self.directory / mark.read_text(encoding="utf-8") if mark.exists() else None
        return path if path is not None and path.exists() else None

    def forget_after(self, path: Path) -> None:
        """Remove later checkpoints: a run that was rolled back must not resume from one of them."""
        for later in self._all():
            if step_of(later) > step_of(path):
                later.unlink()

    def load(self, trainer: Trainer, path: Path) -> None:
        """Bring a trainer to the state that was saved.

        Raises:
            CheckpointError: If the file cannot be read, or the checkpoint comes from another configuration.
        """
        try:
            device = next(trainer.model.parameters()).device
            state: dict[str, Any] = torch.load(path, weights_only=True, map_location=device)
            # A checkpoint of an earlier version lacks settings that it did not have; their defaults are what it did.
            saved = _settings(Config()) | state.pop("settings")
        except Exception as error:  # a damaged file raises errors of many kinds
            raise CheckpointError(f"checkpoint {path} must be one of this trainer's, got {error!r}") from error
        wanted = _settings(trainer.config)
        different = [name for name in wanted if saved.get(name) != wanted[name]]
        if different:
            named = ", ".join(f"{name} {saved.get(name)!r} there and {wanted[name]!r} here" for name in different)
            raise CheckpointError(f"checkpoint {path} must come from the same configuration, got {named}")
        trainer.load_state(state)

    def _all(self) -> list[Path]:
        return sorted(self.directory.glob("step-*.pt"))


def _settings(config: Config) -> dict[str, object]:
    """Return the settings that must be equal, and whether the method has a critic, which is part of the state."""
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(config).items()}
    fixed = {name: value for name, value in plain.items() if name not in CHANGEABLE_OF_RUN | CHANGEABLE_OF_PROCESS}
    return fixed | {"has_critic": config.optimises.has_critic}


def step_of(path: Path) -> int:
    """Return the step of a checkpoint."""
    return int(re.sub(r"\D", "", path.stem))
