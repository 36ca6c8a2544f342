"""Trains the forks of a run one after another in the run's own trainer, and chooses among them.

Each fork begins at the last healthy checkpoint with the same generators. The measurements of a finished fork are kept
on disk beside the checkpoints until the run has taken over the winner's steps. If the process dies meanwhile, the next
process goes on with the first fork that is not finished.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from trainer_hooks.forks import CONTROL, Choice, ForkMeasurement, choose
from trainer_hooks.reference.run.checkpoints import Checkpoints, step_of
from trainer_hooks.reference.run.forks.contexts import ForkContexts
from trainer_hooks.reference.run.forks.treatment_settings import adjustments
from trainer_hooks.reference.run.telemetry import numbers
from trainer_hooks.reference.run.trainer import Trainer, TrainingError
from trainer_hooks.reference.state_files import write_whole
from trainer_hooks.reference.updates.adjustment import Adjustment
from trainer_hooks.wire import AlertNotice

__all__ = ["Forked", "Forking"]

LONGEST = 3
"""A fork trains at most this many times `Config.fork_steps`, even if the healthy checkpoint is older."""

_Rows = dict[int, dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """The result of the forks.

    Attributes:
        choice: The winner and every score.
        asked_at: The step after which the forks were requested.
        begun_at: The step of the healthy checkpoint at which the forks began.
        alerts: The alerts that fired when the forks were requested.
        rows: The winner's steps by number with their signals, which the run takes over; empty if the control won.
        extra_steps: The number of trained steps that are not part of the run.
    """

    choice: Choice
    asked_at: int
    begun_at: int
    alerts: Sequence[AlertNotice]
    rows: Mapping[int, Mapping[str, float]]
    extra_steps: int

    @property
    def has_changed(self) -> bool:
        """Whether the run goes on with a treatment."""
        return self.choice.winner != CONTROL


class Forking:
    """The forks of a run.

    Args:
        trainer: Trains the run and, while it waits, its forks.
        checkpoints: The checkpoints of the run; files of forks are in a folder beside them.
        report: Takes one line for each fork.

    Raises:
        ValueError: If several ranks train.
    """

    def __init__(self, trainer: Trainer, checkpoints: Checkpoints, report: Callable[[str], None]) -> None:
        if trainer.ranks.size > 1:
            raise ValueError(f"on_acceleration fork needs a single process, got {trainer.ranks.size} ranks")
        self._trainer = trainer
        self._checkpoints = checkpoints
        self._report = report
        self._plan_path = _plan_of(checkpoints)
        self._folder = self._plan_path.parent

    @property
    def is_unfinished(self) -> bool:
        """Whether a process died after it planned forks and before the run took over the winner."""
        return self._plan_path.exists()

    def begin(self, healthy: Path, alerts: Sequence[AlertNotice] = ()) -> None:
        """Save the run as it is, and plan forks from a healthy checkpoint, because of alerts.

        The plan holds all settings that the forks must have in common, so that the forks stay comparable if another
        process goes on with it under other settings.
        """
        trainer, config = self._trainer, self._trainer.config
        begun_at = step_of(healthy)
        plan = {
            "present": self._checkpoints.save(trainer).name,
            "healthy": healthy.name,
            "at": trainer.step_number,
            "steps": min(
                max(config.fork_steps, trainer.step_number - begun_at),
                LONGEST * config.fork_steps,
                config.steps - begun_at,
            ),
            "questions": config.fork_questions,
            "alerts": msgspec.to_builtins(alerts),
            "treated": {name: asdict(adjustment) for name, adjustment in adjustments(trainer.learner).items()},
        }
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        part = self._plan_path.with_suffix(".part")
        part.write_text(json.dumps(plan), encoding="utf-8")
        part.replace(self._plan_path)

    def finish(self) -> Forked:
        """Train the forks that are missing, choose, and bring the trainer to the state that it goes on with.

        The plan stays until `close`: a process that dies before the winner's steps are reported reports them later.

        Raises:
            CheckpointError: If a checkpoint of the plan cannot be read.
            Exception: Any error of the environment, such as a tool that does not answer; `finish` can be called again.
        """
        plan: dict[str, Any] = json.loads(self._plan_path.read_text(encoding="utf-8"))
        trainer, present = self._trainer, self._checkpoints.directory / plan["present"]
        healthy = self._checkpoints.directory / plan["healthy"]
        # The adjustments of the plan include the changes of earlier forks, which the healthy checkpoint may lack.
        treated = {name: Adjustment(**adjustment) for name, adjustment in plan["treated"].items()}
        self._checkpoints.load(trainer, healthy)
        begun_at = trainer.step_number
        contexts = ForkContexts.of(trainer.model, trainer.environment, plan["questions"])
        if len(contexts.questions) < plan["questions"]:
            self._report(f"forks are compared on {len(contexts.questions)} held-out questions: there are no others")
        for name, adjustment in treated.items():
            if not self._result(name).exists():
                self._checkpoints.load(trainer, healthy)
                self._train(name, adjustment, plan["steps"], contexts)
        found = {name: self._read(name) for name in treated}
        choice = choose(measurement for measurement, _ in found.values())
        rows: _Rows = {}
        if choice.winner == CONTROL:
            self._checkpoints.load(trainer, present)
        else:
            rows = found[choice.winner][1]
            trainer.load_state(self._load(choice.winner)["trainer"])
            self._checkpoints.forget_after(healthy)
            self._checkpoints.save(trainer)
        return Forked(
            choice=choice,
            asked_at=plan["at"],
            begun_at=begun_at,
            alerts=msgspec.convert(plan["alerts"], list[AlertNotice]),
            rows=rows,
            extra_steps=sum(measurement.steps for measurement, _ in found.values()) - len(rows),
        )

    def close(self) -> None:
        """Remove the plan and the files of the forks."""
        self.abandon(self._checkpoints)

    @staticmethod
    def abandon(checkpoints: Checkpoints) -> None:
        """Remove the plan, to which the run must not return later, and then the files of its forks."""
        plan = _plan_of(checkpoints)
        if plan.exists():  # a folder of that name without a plan may be somebody else's
            plan.unlink()
            shutil.rmtree(plan.parent, ignore_errors=True)

    def _result(self, name: str) -> Path:
        return self._folder / f"{name}.pt"

    def _load(self, name: str) -> dict[str, Any]:
        device = next(self._trainer.model.parameters()).device
        return torch.load(self._result(name), weights_only=True, map_location=device)  # type: ignore[no-any-return]

    def _read(self, name: str) -> tuple[ForkMeasurement, _Rows]:
        """Read the measurements of a fork and its steps, without its state: states of all forks may not fit at once."""
        result = self._load(name)
        return ForkMeasurement(**result["measurement"]), {int(step): row for step, row in result["rows"].items()}

    def _train(self, name: str, adjustment: Adjustment, steps: int, contexts: ForkContexts) -> None:
        """Train one fork from the healthy state, measure it and keep the measurements."""
        trainer = self._trainer
        trainer.learner.adjustment = adjustment
        rows: _Rows = {}
        try:
            for _ in range(steps):
                result = trainer.step()
                rows[result.step] = numbers(result, clip=trainer.learner.config.reported_clip)
            found = contexts.measure(name, steps, trainer.model)
        except (TrainingError, FloatingPointError) as error:
            found = ForkMeasurement(name=name, steps=len(rows), failure=str(error))
        kept = {"measurement": asdict(found), "rows": rows, "trainer": trainer.state()}
        write_whole(kept, self._result(name))
        self._report(f"fork {name}: {found.failure or f'{found.steps} steps'}")


def _plan_of(checkpoints: Checkpoints) -> Path:
    return checkpoints.directory / "forks" / "plan.json"
