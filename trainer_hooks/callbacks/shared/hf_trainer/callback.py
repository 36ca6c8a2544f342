"""Turns the events of a Hugging Face Trainer into steps of a run; `StepCapture` reads what the trainer computes."""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import trainer_hooks
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.hf_trainer.attach_monitors import TrainerModelMonitors
from trainer_hooks.callbacks.shared.hf_trainer.capture import StepCapture
from trainer_hooks.callbacks.shared.hf_trainer.left_trainings import (
    end_left_trainings,
    find_calling_trainer,
    forget_training,
    note_training,
)
from trainer_hooks.callbacks.shared.hf_trainer.trainer_actions import TrainerActions, require_possible
from trainer_hooks.callbacks.shared.naming import PARTIAL_STEP, TRANSFORMERS, canonical
from trainer_hooks.callbacks.shared.repetitions import remove_repetitions
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.model_monitors import ModelMonitors
from trainer_hooks.probes.paired import Paired
from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.settings import find_run_name

__all__ = ["StreamingCallback"]

# Metrics of the trainer that describe the run and not a step. These are whole names, because metrics of the user may
# have the same beginning.
IGNORED = frozenset(
    {
        "epoch",
        "train_runtime",
        "train_tokens_per_second",
        "eval_runtime",
        "eval_samples_per_second",
        "eval_steps_per_second",
    }
)


class StreamingCallback(TrainerCallback):
    """Sends the steps of a Hugging Face Trainer; the callbacks of transformers and of TRL derive from it.

    The trainer is found when training begins, and its methods are wrapped on that object alone until training ends.
    Weights, gradients and random generators are the same with and without it. After training has begun, the callback
    raises no error; a connection setting that cannot work raises an error before the first step.

    Args:
        monitor: A monitor that you have connected and close yourself; the connection arguments below are then ignored.
        url: Address of the collector; else `RLVITALS_URL`. Without either nothing happens.
        project: Project of the run.
        run: Name of the run; else `RLVITALS_RUN`, else ``run_name`` of the training arguments. Give one to have a
            resumed training continue its run.
        api_key: Key with the scope ingest.
        on_alert: Called with each alert that fires on the run, in a background thread.
        policy: What to do about alerts. A monitor of your own has it from ``connect(actions=...)``.
        model_monitors: Measures the model at every n-th step, on rank 0; off unless given.

    Raises:
        ConfigurationError: If both a monitor and a policy are given, or the policy asks for a rollback.
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
        require_possible(monitor.policy if monitor else policy)
        self._monitor = monitor
        self._is_own = monitor is None
        self._connect_to = functools.partial(
            trainer_hooks.connect, url=url, project=project, api_key=api_key, on_alert=on_alert, actions=policy
        )
        self._run = run
        self._actions: TrainerActions | None = None
        self._given_model_monitors = model_monitors
        self._model_monitors: TrainerModelMonitors | None = None
        self._guard = Guard()
        self._capture: StepCapture | None = None
        # Whether a step of this training has begun, and the numbers that were logged before it in a resumed training.
        self._has_begun = False
        self._held: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy for another training, without the state of the training under way."""
        mine = {"_actions": None, "_model_monitors": None, "_capture": None}
        return vars(self) | mine | ({"_monitor": None} if self._is_own else {})

    def create_capture(self, trainer: Any, *, texts: bool) -> StepCapture:
        """Create the object that reads this trainer's steps.

        Args:
            trainer: The trainer whose training begins.
            texts: Whether texts of responses may leave the process.
        """
        raise NotImplementedError

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Find the trainer that calls, connect, and wrap its methods."""
        self.end_training("stopped")  # an earlier training that raised ended without on_train_end
        self._has_begun, self._held = False, {}
        with self._guard:
            end_left_trainings()
        trainer = find_calling_trainer(self)
        if trainer is not None:
            remove_repetitions(self, trainer.callback_handler.callbacks)
        if self._monitor is None:
            self._monitor = self._connect(args, trainer)
            # A signal handler may end the script in the middle of the training.
            self._monitor.end_at_exit = "stopped"
        if isinstance(self._monitor, trainer_hooks.NullMonitor) or trainer is None:
            return
        self._guard.count_for(self._monitor)
        with self._guard:
            if self._is_own:
                note_training(self, self._monitor)
        with self._guard:
            self._capture = self.create_capture(trainer, texts=self._monitor.texts)
            self._capture.install()
            # A trainer that searches for a batch size starts again after running out of memory, so nothing is lost.
            if not args.auto_find_batch_size:
                self._capture.on_error = functools.partial(self._log_partial_step, state)
            policy = self._monitor.begin_acting()
            self._actions = TrainerActions(policy, self._monitor, trainer, self._guard) if policy else None
            if self._given_model_monitors is not None and state.is_world_process_zero:
                self._model_monitors = TrainerModelMonitors(self._given_model_monitors, trainer, self._guard)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin a step."""
        self._has_begun = True
        with self._guard:
            if self._capture is not None:
                self._capture.begin_step()
        with self._guard:
            if self._model_monitors is not None:
                self._model_monitors.begin_step(state.global_step + 1)

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the gradients, and skip the update where the policy asks for it."""
        with self._guard:
            if self._model_monitors is not None:
                self._model_monitors.before_update()
        with self._guard:
            if self._capture is not None:
                self._capture.before_update()
        with self._guard:
            if self._actions is not None:
                self._actions.before_update(kwargs["model"])

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read the learning rate of this step before the schedule advances."""
        with self._guard:
            if self._capture is not None:
                self._capture.note_learning_rate(float(kwargs["optimizer"].param_groups[0]["lr"]))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Log the step: this rank's responses, and from rank 0 the numbers of all ranks."""
        if self._capture is None or self._monitor is None:
            return
        reports: list[trainer_hooks.wire.ActionReport] = []
        scalars, rollouts = self._scalars_and_rollouts(self._capture, state)
        with self._guard:
            if self._model_monitors is not None:
                scalars |= self._model_monitors.end_step()
        paired: Sequence[Paired] = ()
        with self._guard:  # the model monitors have detached by now
            paired = self._capture.paired_scores()
        recomputed: Sequence[Recomputed] = ()
        with self._guard:
            recomputed = self._capture.recomputed_scores()
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
            recomputed=recomputed,
            actions=reports,
        )
        with self._guard:
            self._capture.end_step()

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Log the trainer's metrics beyond those of its steps; without the trainer, these are all that is logged.

        A training that resumes with `eval_on_start` evaluates at the checkpoint's step. That step has the numbers of
        its training already, which a record of a new attempt would replace, so the evaluation waits for the first step.
        """
        with self._guard:
            logs = {name: value for name, value in (kwargs.get("logs") or {}).items() if name not in IGNORED}
            is_first = state.is_world_process_zero
            # Only the summary at the end of a training has this number.
            if self._monitor is None or "total_flos" in logs or not (is_first or state.global_step == 0):
                return
            capture = self._capture
            found = capture.logged_numbers(logs) if capture else canonical(logs, TRANSFORMERS, prefix=self.library)
            if capture is not None and not self._has_begun and state.global_step > 0:
                self._held |= found
            elif found:
                # The collector waits for every rank at a step that one has sent, and a training has no step 0.
                self._monitor.log_step(state.global_step, found if is_first else None)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Record a checkpoint that training may be resumed from."""
        with self._guard:
            if self._actions is not None:
                self._actions.note_checkpoint(state)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Restore the trainer's methods and send the remaining records."""
        with self._guard:
            self.end_training("finished")

    def end_training(self, end: "trainer_hooks.wire.RunEnd") -> None:
        """Restore the trainer's methods, send the remaining records and report how the run ended; safe to call twice.

        A monitor of your own stays open.
        """
        self._release()
        if self._monitor is not None and self._is_own:
            forget_training(self._monitor)
            self._monitor.close(end)
            self._monitor = None

    def _log_partial_step(self, state: TrainerState) -> None:
        """Log what is known of the step that an exception ends, such as one that runs out of memory."""
        if self._capture is None or self._monitor is None:
            return
        scalars, rollouts = self._scalars_and_rollouts(self._capture, state)
        if scalars or rollouts:
            scalars |= {PARTIAL_STEP: 1.0}
            step = state.global_step
            self._monitor.log_step(step + 1, scalars, rollouts=rollouts, policy_version=step)

    def _scalars_and_rollouts(
        self, capture: StepCapture, state: TrainerState
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        scalars: dict[str, Any] = {}
        rollouts = None
        with self._guard:
            rollouts = capture.rollouts()
        with self._guard:
            if state.is_world_process_zero:
                scalars = capture.scalars()
        held, self._held = self._held, {}
        return held | scalars, rollouts

    def _connect(self, args: TrainingArguments, trainer: Any) -> "trainer_hooks.Monitor":
        # The ranks must have the same name without communicating.
        shared = Path(str(args.output_dir)).name if args.world_size > 1 else None
        model = getattr(getattr(getattr(trainer, "model", None), "config", None), "_name_or_path", "")
        return self._connect_to(
            run=find_run_name(self._run) or args.run_name or shared,
            config=args.to_dict() | {"model": str(model)},  # type: ignore[no-untyped-call]
            rank=args.process_index,
            world_size=args.world_size,
            # Not the version of the distribution: a copy of the folder was never installed.
            source=f"{self.library} {getattr(sys.modules.get(self.library), '__version__', 'unknown')}",
        )

    def _release(self) -> None:
        # Wrappers are removed in the reverse order of their installation.
        if self._model_monitors is not None:
            self._model_monitors.remove()
        if self._capture is not None:
            self._capture.remove()
        self._capture = self._actions = self._model_monitors = None
