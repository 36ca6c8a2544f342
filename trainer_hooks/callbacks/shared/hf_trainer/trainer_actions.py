"""Carries out decisions on alerts in a Hugging Face Trainer, between two steps."""

from pathlib import Path
from typing import Any

from transformers import TrainerControl, TrainerState

from trainer_hooks.actions import ActionPolicy, Decision
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.hf_trainer.backward_updates import updates_in_backward
from trainer_hooks.callbacks.shared.hf_trainer.checkpoints import STOP_FILE, TrainerCheckpoints
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.monitor import Monitor
from trainer_hooks.ranks.agreement import make_coordinator
from trainer_hooks.ranks.coordinators import Coordinator
from trainer_hooks.recording.health import HEALTHY_PHASES
from trainer_hooks.wire import ActionReport

__all__ = ["TrainerActions", "require_possible"]

DEFAULT_LLDS_COEF = 0.1


def require_possible(policy: ActionPolicy | None) -> None:
    """Check before training that a Trainer can do what a policy asks for.

    Raises:
        ConfigurationError: If a rule asks for a rollback.
    """
    if policy is not None and "rollback" in policy.actions:
        raise ConfigurationError(
            "a transformers Trainer cannot go back while it trains, got the action 'rollback'; use 'stop', which "
            f"leaves the last healthy checkpoint in {STOP_FILE}, and resume from there"
        )


class TrainerActions:
    """Carries out a policy's decisions, after the same step on every rank or on none (`trainer_hooks.ranks.agreement`).

    Args:
        policy: Maps alerts to actions.
        monitor: Holds the run's phase and its newest healthy step.
        trainer: The trainer to act on, whose training begins.
        guard: Swallows and counts errors of this package.
    """

    def __init__(self, policy: ActionPolicy, monitor: Monitor, trainer: Any, guard: Guard) -> None:
        self._policy = policy
        self._monitor = monitor
        self._trainer = trainer
        self._guard = guard
        self._coordinator: Coordinator = make_coordinator(trainer.args.world_size)
        self._skips = 0
        self._checkpoints = TrainerCheckpoints(
            Path(str(trainer.args.output_dir)), resumed_step=trainer.state.global_step
        )

    def note_checkpoint(self, state: TrainerState) -> None:
        """Record a checkpoint, unless the run is known to be sick; later answers decide whether it was healthy."""
        self._checkpoints.note(state.global_step, may_be_healthy=self._may_be_healthy())

    def _may_be_healthy(self) -> bool:
        return self._monitor.phase in (*HEALTHY_PHASES, "unknown")

    def before_update(self, model: Any) -> None:
        """Skip this update if that was decided: an optimiser does not change weights that have no gradient."""
        if self._skips:
            self._skips -= 1
            model.zero_grad(set_to_none=True)

    def after_step(self, state: TrainerState, control: TrainerControl) -> list[ActionReport]:
        """Carry out the decisions that are due.

        Returns:
            The reports that this rank sends.
        """
        healthy_step = self._monitor.healthy_step  # read first: it must not be newer than the phase
        if not self._may_be_healthy():
            self._checkpoints.forget_after(healthy_step)
        reports = []
        for settled in self._coordinator.settle(self._policy.take_due(), state.global_step):
            refusal = settled.refusal or self._do(settled.decision, state, control)
            if settled.is_reported_here:
                reports.append(settled.decision.report("refused" if refusal else "taken", refusal or ""))
        if state.is_world_process_zero:
            reports += [decision.report("dry_run") for decision in self._policy.take_foreseen()]
        return reports

    def _do(self, decision: Decision, state: TrainerState, control: TrainerControl) -> str | None:
        """Carry out a decision, or return the reason for its refusal, which is the same on every rank."""
        if decision.action == "checkpoint":
            return self._save(decision.alert.opened_step, control)
        if decision.action == "skip_update":
            if updates_in_backward(self._trainer):
                return "an update cannot be left out where the backward pass makes it (DeepSpeed, LOMO, layer-wise)"
            if self._trainer.accelerator.scaler is not None:
                return "an update cannot be left out with a gradient scaler"
            self._skips += 1
        elif decision.action == "enable_llds":
            if not hasattr(self._trainer, "llds_coef"):
                return "the trainer is no LLDSGRPOTrainer"
            why_inert: str | None = getattr(self._trainer, "why_inert", None)
            if why_inert:
                return why_inert
            self._trainer.llds_coef = self._trainer.llds_coef or DEFAULT_LLDS_COEF
        elif decision.action == "stop":
            control.should_training_stop = True
            # All ranks stop now, even if the file cannot be written.
            with self._guard:
                if state.is_world_process_zero:
                    healthy = self._checkpoints.healthy(
                        judged_step=self._monitor.healthy_step, before=decision.alert.opened_step
                    )
                    self._checkpoints.write_stop_file(state.global_step, reason=decision.reason, healthy=healthy)
        return None

    def _save(self, opened_step: int, control: TrainerControl) -> str | None:
        limit = self._trainer.args.save_total_limit
        lost = self._checkpoints.step_lost_by_saving(limit=limit, before=opened_step)
        if lost is not None:
            return f"save_total_limit={limit} would delete checkpoint-{lost}, the newest from before the alert"
        control.should_save = True
        return None
