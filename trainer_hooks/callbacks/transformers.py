"""Watches a transformers Trainer, whatever it trains: ``callbacks=[VitalsCallback()]`` or ``report_to="rlvitals"``.

Importing this module registers ``rlvitals`` with transformers as a value of ``report_to``.
"""

import logging
from typing import Any

from transformers import TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from trainer_hooks.callbacks.shared.hf_trainer.callback import StreamingCallback
from trainer_hooks.callbacks.shared.hf_trainer.capture import StepCapture
from trainer_hooks.callbacks.shared.hf_trainer.left_trainings import find_calling_trainer
from trainer_hooks.callbacks.trl.capture import RolloutCapture

__all__ = ["VitalsCallback"]

logger = logging.getLogger("trainer_hooks")


class VitalsCallback(StreamingCallback):
    """Sends loss, gradient norm, learning rate and logged metrics of each optimiser step, and tokens if there are any.

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

    def create_capture(self, trainer: Any, *, texts: bool) -> StepCapture:
        """Create the object that reads this trainer's steps, with tokens if the trainer makes rollouts, as TRL's do."""
        if hasattr(trainer, "_generate_and_score_completions"):
            return RolloutCapture(trainer, self._guard, texts=texts)
        return StepCapture(trainer, self._guard)


class ReportingCallback(VitalsCallback):
    """The callback behind ``report_to="rlvitals"``. It does nothing if the trainer was also given a VitalsCallback."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Connect and wrap the trainer's methods, unless another callback of this package does."""
        trainer = find_calling_trainer(self)
        callbacks = [] if trainer is None else trainer.callback_handler.callbacks
        if not any(isinstance(callback, StreamingCallback) and callback is not self for callback in callbacks):
            super().on_train_begin(args, state, control, **kwargs)
        elif state.is_world_process_zero:
            logger.warning('rlvitals: report_to="rlvitals" does nothing beside the VitalsCallback that was given')


INTEGRATION_TO_CALLBACK["rlvitals"] = ReportingCallback
