"""Watches TRL's GRPOTrainer and RLOOTrainer: one line in the training script, nothing else changes.

    trainer = GRPOTrainer(..., callbacks=[VitalsCallback()])

This module turns trainer events into steps; `trainer_hooks.callbacks.trl_capture` catches the tokens.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from types import FrameType
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import trainer_hooks
from trainer_hooks.callbacks.guard import Guard
from trainer_hooks.callbacks.naming import TRL, canonical
from trainer_hooks.callbacks.trl_capture import TokenCapture

__all__ = ["VitalsCallback"]

RATIO_NAMES = ("ratio/clip_frac", "ratio/clip_low_frac", "ratio/clip_high_frac")


class VitalsCallback(TrainerCallback):
    """Streams the vital signs of a TRL run, each optimiser step, each rank its own responses.

    Give it to ``callbacks=``. The trainer is found when training begins, and its methods are wrapped on that object
    alone until training ends. What fires decides the capability level: L3 with the tokens of the loss, L1 with
    nothing but TRL's own metrics (where the loss is fused out of sight, as by Liger or Unsloth).

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
        correct: Name of the reward function whose positive value says that a response is correct. Without it a
            response is correct where its weighted reward is positive: name it if you also reward format or length.
        control_ids: Token ids of your protocol, such as the opening of a tool call.
    """

    def __init__(
        self,
        monitor: "trainer_hooks.Monitor | None" = None,
        *,
        url: str | None = None,
        project: str = "default",
        run: str | None = None,
        api_key: str | None = None,
        on_alert: "Callable[[trainer_hooks.AlertNotice], object] | None" = None,
        correct: str | None = None,
        control_ids: Sequence[int] | None = None,
    ) -> None:
        self._monitor = monitor
        self._is_own = monitor is None
        self._connect_to = functools.partial(
            trainer_hooks.connect, url=url, project=project, api_key=api_key, on_alert=on_alert
        )
        self._run = run
        self._correct = correct
        self._control_ids = control_ids
        self._guard = Guard()
        self._trainer: Any = None
        self._capture: TokenCapture | None = None
        self._marks: dict[str, int] = {}
        self._learning_rate: float | None = None

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
        with self._guard:
            self._trainer = trainer
            self._capture = TokenCapture(trainer, self._guard, correct=self._correct, control_ids=self._control_ids)
            self._capture.install()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Mark where the step's metrics begin: TRL appends to lists that it clears when it logs."""
        with self._guard:
            if self._capture is not None:
                self._capture.begin_step()
                self._marks = {name: len(values) for name, values in self._own_metrics().items()}

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read the learning rate of this step before the schedule moves on."""
        with self._guard:
            self._learning_rate = float(kwargs["optimizer"].param_groups[0]["lr"])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Hand the step over."""
        if self._capture is None or self._monitor is None:
            return
        with self._guard:
            self._monitor.log_step(
                state.global_step,
                self._scalars(args, self._capture) if state.is_world_process_zero else None,
                rollouts=self._capture.rollouts(),
                policy_version=state.global_step - 1,
            )

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Fall back on the trainer's log where nothing else is to be had."""
        with self._guard:
            logs = kwargs.get("logs") or {}
            is_step = "loss" in logs and "train_runtime" not in logs
            if self._monitor is None or self._capture is not None or not is_step or not state.is_world_process_zero:
                return
            self._monitor.log_step(state.global_step, canonical(logs, TRL, prefix="trl"))

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
        world_size = args.world_size
        # Ranks have to agree on a name without talking to each other.
        run = self._run or args.run_name or (Path(str(args.output_dir)).name if world_size > 1 else None)
        return self._connect_to(
            run=run,
            config=args.to_sanitized_dict() | {"model": _model_name(trainer)},
            rank=args.process_index,
            world_size=world_size,
            source=f"trl {version('trl')}",
        )

    def _release(self) -> None:
        if self._capture is not None:
            self._capture.remove()
        self._trainer = self._capture = None

    def _own_metrics(self) -> dict[str, list[float]]:
        metrics: dict[str, list[float]] = getattr(self._trainer, "_metrics", {}).get("train", {})
        return metrics

    def _scalars(self, args: TrainingArguments, capture: TokenCapture) -> dict[str, float]:
        """Give TRL's metrics of this very step, not of its logging window, and ours beside them."""
        new = {name: values[self._marks.get(name, 0) :] for name, values in self._own_metrics().items()}
        means = {name: fmean(values) for name, values in new.items() if values}
        scalars = canonical(means, TRL, prefix="trl") | capture.group_scalars
        if not capture.is_off_policy:
            scalars = {name: value for name, value in scalars.items() if name not in RATIO_NAMES}
        loss = capture.loss
        if loss is not None:
            scalars.setdefault("loss/policy", loss)
        if self._learning_rate is not None:
            scalars["lr"] = self._learning_rate
        if capture.grad_norm is not None:
            scalars["grad/norm"] = capture.grad_norm
            if args.max_grad_norm:
                scalars["grad/clipped_frac"] = float(capture.grad_norm > args.max_grad_norm)
        if self._guard.errors:
            scalars["hooks/adapter_errors"] = float(self._guard.errors)
        return scalars


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


def _model_name(trainer: Any) -> str:
    return str(getattr(getattr(getattr(trainer, "model", None), "config", None), "_name_or_path", ""))
