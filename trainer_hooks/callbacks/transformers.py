"""Watches a transformers Trainer, whatever it trains: ``callbacks=[VitalsCallback()]`` or ``report_to="rlvitals"``.

Importing this module is what makes ``report_to="rlvitals"`` known. This module turns trainer events into steps;
`step_capture` and `trl_capture` catch what the trainer computes.
"""

import functools
import logging
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

import trainer_hooks
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.callbacks.parts.guard import Guard
from trainer_hooks.callbacks.parts.naming import TRANSFORMERS, canonical
from trainer_hooks.callbacks.parts.step_capture import StepCapture
from trainer_hooks.callbacks.parts.trainer_actions import TrainerActions, refuse_impossible
from trainer_hooks.callbacks.parts.trainer_looks import TrainerLooks
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.model_monitors import ModelMonitors
from trainer_hooks.probes.paired import Paired

__all__ = ["VitalsCallback"]

logger = logging.getLogger("trainer_hooks")


class VitalsCallback(TrainerCallback):
    """Streams loss, gradient norm, learning rate and logged metrics of each optimiser step; tokens where there are any.

    The trainer is found when training begins, and its methods are wrapped on that object alone until training ends.
    Weights, gradients and random generators are the same with and without it. Nothing raises once training has
    begun; a connection setting that cannot work raises before the first step.

    Args:
        monitor: A monitor of your own; then the arguments below and the closing are yours.
        url: Address of the collector; else `RLVITALS_URL`. Without either nothing happens.
        project: Project of the run.
        run: Name of the run; else `RLVITALS_RUN`, else ``run_name`` of the training arguments. Give one to have a
            resumed training continue its run.
        api_key: Key with the scope ingest.
        on_alert: Called with each alert that fires on the run, in a background thread.
        policy: What to do about alerts. A monitor of your own has it from ``connect(actions=...)``.
        model_monitors: Looks into the model at every n-th step, on rank 0; nobody does unless given.
    """

    library = "transformers"

    def __init__(
        self,
        monitor: "trainer_hooks.Monitor | None" = None,
        *,
        url: str | None = None,
        project: str = "default",
        run: str | None = None,
        api_key: str | None = None,
        on_alert: "Callable[[trainer_hooks.AlertNotice], object] | None" = None,
        policy: ActionPolicy | None = None,
        model_monitors: ModelMonitors | None = None,
    ) -> None:
        if monitor is not None and policy is not None:
            raise ConfigurationError("a monitor of your own must hold the policy itself: connect(actions=policy)")
        refuse_impossible(monitor.policy if monitor else policy)
        self._monitor = monitor
        self._is_own = monitor is None
        self._connect_to = functools.partial(
            trainer_hooks.connect, url=url, project=project, api_key=api_key, on_alert=on_alert, actions=policy
        )
        self._run = run
        self._actions: TrainerActions | None = None
        self._model_monitors = model_monitors
        self._looks: TrainerLooks | None = None
        self._guard = Guard()
        self._capture: StepCapture | None = None

    def capture_of(self, trainer: Any, *, texts: bool) -> StepCapture:
        """Choose what to catch by what the trainer does; the texts of its tokens where they may leave."""
        if not hasattr(trainer, "_generate_and_score_completions"):
            return StepCapture(trainer, self._guard)
        from trainer_hooks.callbacks.trl.capture import TokenCapture  # noqa: PLC0415 - its package imports this module

        return TokenCapture(trainer, self._guard, texts=texts)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Find the trainer that calls, connect, and start to listen."""
        self._release()
        trainer = _calling_trainer(self)
        if self._monitor is None:
            self._monitor = self._connect(args, trainer)
        if isinstance(self._monitor, trainer_hooks.NullMonitor) or trainer is None:
            return
        self._guard.tell(self._monitor)
        with self._guard:
            self._capture = self.capture_of(trainer, texts=self._monitor.texts)
            self._capture.install()
            policy = self._monitor.policy
            self._actions = TrainerActions(policy, self._monitor, trainer, self._guard) if policy else None
            if self._model_monitors is not None and state.is_world_process_zero:
                self._looks = TrainerLooks(self._model_monitors, trainer, self._guard)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start a step."""
        with self._guard:
            if self._capture is not None:
                self._capture.begin_step()
        with self._guard:
            if self._looks is not None:
                self._looks.begin_step(state.global_step + 1)

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Look at the gradients, and leave the update out where the policy says so."""
        with self._guard:
            if self._looks is not None:
                self._looks.before_update()
        with self._guard:
            if self._capture is not None:
                self._capture.before_update()
        with self._guard:
            if self._actions is not None:
                self._actions.before_update(kwargs["model"])

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read the learning rate of this step before the schedule moves on."""
        with self._guard:
            if self._capture is not None:
                self._capture.note_learning_rate(float(kwargs["optimizer"].param_groups[0]["lr"]))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Hand the step over: this rank's responses, and from rank 0 the numbers of all."""
        if self._capture is None or self._monitor is None:
            return
        scalars, rollouts = {}, None
        reports: list[trainer_hooks.wire.ActionReport] = []
        with self._guard:
            rollouts = self._capture.rollouts()
        with self._guard:
            if state.is_world_process_zero:
                scalars = self._capture.scalars()
        with self._guard:
            if self._looks is not None:
                scalars |= self._looks.end_step()
        paired: Sequence[Paired] = ()
        with self._guard:  # what looks into the model has looked
            paired = self._capture.paired()
        with self._guard:
            if self._actions is not None:
                reports = self._actions.after_step(state, control)
                scalars |= {f"action/{report.action}": 1.0 for report in reports if report.outcome == "taken"}
        self._monitor.log_step(
            state.global_step,
            scalars,
            rollouts=rollouts,
            policy_version=state.global_step - 1,
            paired=paired,
            actions=reports,
        )

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Add what the trainer logs and nothing else has; all there is where the trainer was not found."""
        with self._guard:
            logs = kwargs.get("logs") or {}
            if self._monitor is None or not state.is_world_process_zero or "train_runtime" in logs:
                return
            capture = self._capture
            found = capture.logged(logs) if capture else canonical(logs, TRANSFORMERS, prefix=self.library)
            if found:
                self._monitor.log_step(state.global_step, found)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Remember a checkpoint to go back to."""
        with self._guard:
            if self._actions is not None:
                self._actions.note_checkpoint(state)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Let go of the trainer and deliver what is left."""
        with self._guard:
            self._release()
            if self._monitor is not None and self._is_own:
                self._monitor.close()
                self._monitor = None

    def _connect(self, args: TrainingArguments, trainer: Any) -> "trainer_hooks.Monitor":
        # Ranks have to agree on a name without talking to each other.
        shared = Path(str(args.output_dir)).name if args.world_size > 1 else None
        model = getattr(getattr(getattr(trainer, "model", None), "config", None), "_name_or_path", "")
        return self._connect_to(
            run=self._run or args.run_name or shared,
            config=args.to_sanitized_dict() | {"model": str(model)},
            rank=args.process_index,
            world_size=args.world_size,
            source=f"{self.library} {version(self.library)}",
        )

    def _release(self) -> None:
        # The last to wrap a method is the first to let go of it.
        if self._looks is not None:
            self._looks.remove()
        if self._capture is not None:
            self._capture.remove()
        self._capture = self._actions = self._looks = None


def _calling_trainer(callback: TrainerCallback) -> Any:
    """Find the trainer whose train() is on the stack: callbacks are not told which one calls them."""
    # Not inspect.stack(), which reads source files for each frame.
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        found = frame.f_locals.get("self")
        if isinstance(found, Trainer) and callback in found.callback_handler.callbacks:
            return found
        frame = frame.f_back
    return None


class ReportedVitals(VitalsCallback):
    """What ``report_to="rlvitals"`` makes: leaves a trainer to a callback that it was given by hand."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start to listen, unless the other does."""
        trainer = _calling_trainer(self)
        callbacks = [] if trainer is None else trainer.callback_handler.callbacks
        if not any(isinstance(callback, VitalsCallback) and callback is not self for callback in callbacks):
            super().on_train_begin(args, state, control, **kwargs)
        elif state.is_world_process_zero:
            logger.warning('rlvitals: report_to="rlvitals" does nothing beside the VitalsCallback that was given')


INTEGRATION_TO_CALLBACK["rlvitals"] = ReportedVitals
