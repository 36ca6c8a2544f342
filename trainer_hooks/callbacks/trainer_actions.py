"""Carries decisions out on a transformers Trainer, between two steps."""

import json
from pathlib import Path
from typing import Any

from transformers import TrainerControl, TrainerState, TrainingArguments

from trainer_hooks.actions import Action, ActionPolicy, Decision

__all__ = ["STOP_FILE", "TrainerActions"]

STOP_FILE = "rlvitals_stopped.json"
# A run that is acting up leaves no checkpoint to go back to.
HEALTHY_PHASES = ("warmup", "healthy", "stagnation")
DEFAULT_LLDS_COEF = 0.1


class TrainerActions:
    """Does what a policy decides, on a training of one process.

    Ranks learn of an alert at different moments, and one that stops or skips alone would leave the others waiting in
    a collective: with several processes nothing is done but what the policy logs.

    Args:
        policy: What to do about which alert.
        trainer: The trainer to act on.
    """

    def __init__(self, policy: ActionPolicy, trainer: Any) -> None:
        self._policy = policy
        self._trainer = trainer
        self._skips = 0
        self._healthy_checkpoint: str | None = None

    def note_checkpoint(self, args: TrainingArguments, state: TrainerState, phase: str) -> None:
        """Remember a checkpoint that was saved in a healthy phase."""
        if phase in HEALTHY_PHASES:
            self._healthy_checkpoint = str(Path(str(args.output_dir)) / f"checkpoint-{state.global_step}")

    def before_update(self, model: Any) -> None:
        """Leave an update out, if one is to be: an optimiser passes over weights that have no gradient."""
        if self._skips:
            self._skips -= 1
            model.zero_grad(set_to_none=True)

    def after_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl) -> set[Action]:
        """Do what is due, and give the names of what was done."""
        done: set[Action] = set()
        for decision in self._policy.due():
            if args.world_size == 1 and self._do(decision, args, state, control):
                done.add(decision.action)
        return done

    def _do(self, decision: Decision, args: TrainingArguments, state: TrainerState, control: TrainerControl) -> bool:
        if decision.action == "checkpoint":
            control.should_save = True
        elif decision.action == "skip_update":
            self._skips += 1
        elif decision.action == "enable_llds":
            if not hasattr(self._trainer, "llds_coef"):
                return False
            self._trainer.llds_coef = self._trainer.llds_coef or DEFAULT_LLDS_COEF
        elif decision.action == "stop":
            control.should_training_stop = True
            told = {
                "step": state.global_step,
                "reason": decision.reason,
                "last_healthy_checkpoint": self._healthy_checkpoint,
            }
            (Path(str(args.output_dir)) / STOP_FILE).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        return True
