"""Logs verl's steps in its driver, as one of verl's own loggers."""

import sys
from collections.abc import Mapping
from typing import Any

import trainer_hooks
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.naming import SIGNALS, VERL, canonical
from trainer_hooks.callbacks.shared.one_time_warnings import OneTimeWarnings
from trainer_hooks.settings import find_project, find_run_name
from trainer_hooks.signals.loss_sums import compute_signals, on_policy

__all__ = ["NAME", "SUMS", "VitalsLogger", "guard"]

NAME = "rlvitals"
# The metrics in which workers send sums over the tokens of the loss have names that begin with this text.
SUMS = "actor/rlvitals_"

# verl aggregates these as the loss (actor.loss_agg_mode). Only with these modes they are means over tokens.
LIKE_THE_LOSS = ("actor/entropy", "actor/entropy_loss", "actor/kl_loss")
MEANS = ("token-mean", "seq-mean-token-mean")

guard = Guard()


class VitalsLogger:
    """One of verl's loggers, with ``log(data, step)``; it adds the tokens that were read since the last step.

    Args:
        project: verl's ``trainer.project_name``; `RLVITALS_PROJECT` goes first.
        run: verl's ``trainer.experiment_name``; `RLVITALS_RUN` goes first.
        config: verl's configuration.
        monitor: A monitor of your own.
    """

    current: "VitalsLogger | None" = None

    def __init__(
        self,
        project: str,
        run: str,
        config: Mapping[str, Any] | None = None,
        *,
        monitor: "trainer_hooks.Monitor | None" = None,
    ) -> None:
        # The driver sends for all workers.
        self._monitor = monitor or trainer_hooks.connect(
            project=find_project(None) or project,
            run=find_run_name(None) or run,
            config=config,
            rank=0,
            world_size=1,
            source="verl",
        )
        guard.count_for(self._monitor)
        self._names = _names(config or {})
        self._is_on_policy = _has_one_update(config or {})
        self._rollouts: dict[str, Any] | None = None
        self._masks: tuple[Any, Any] | None = None
        # Whether the next log may be of a validation before a training, and its metrics until the first step is logged.
        self._may_validate_first = not _is_validation_alone(config or {})
        self._held: dict[str, Any] = {}
        self._warnings = OneTimeWarnings()
        # Without a collector nothing is read from verl's batches.
        VitalsLogger.current = None if isinstance(self._monitor, trainer_hooks.NullMonitor) else self

    def note_rollouts(self, rollouts: dict[str, Any]) -> None:
        """Keep the step's token arrays, before verl logs the step."""
        self._rollouts = rollouts

    def note_rejection(self, sampled: Any, kept: Any) -> None:
        """Keep the mask of the sampled tokens, and the one that rejection sampling leaves for the loss."""
        self._masks = sampled, kept

    def sampled_mask(self, mask: Any) -> Any:
        """Return the mask before rejection sampling if ``mask`` is the mask after it; else ``mask`` itself."""
        if self._masks is None:
            return mask
        (sampled, kept), self._masks = self._masks, None
        return sampled if kept.shape == mask.shape and bool((kept == mask).all()) else mask

    def warn_once(self, message: str) -> None:
        """Log why a signal is not observed, at the first step that lacks it."""
        self._warnings.log(message)

    def log(self, data: Mapping[str, Any], step: int, **_: Any) -> None:
        """Log a step; verl also logs validations, under the same step.

        A training that resumes from a checkpoint first logs a validation at the checkpoint's step. That step has the
        numbers of its training already, which a record of a new attempt would replace, so the validation waits for the
        first step.
        """
        with guard:
            rollouts, self._rollouts = self._rollouts, None
            sums = {name: float(value) for name, value in data.items() if name.startswith(SUMS)}
            metrics = {name: value for name, value in data.items() if name not in sums}
            loss = compute_signals({name.removeprefix(SUMS): value for name, value in sums.items()})
            scalars = canonical(metrics, self._names, prefix="verl") | loss
            if self._is_on_policy:
                scalars = on_policy(scalars)
            is_first, self._may_validate_first = self._may_validate_first, False
            is_validation = SIGNALS.isdisjoint(scalars) and any(name.startswith("val") for name in metrics)
            if is_first and is_validation and step > 0:
                self._held = scalars
                return
            held, self._held = self._held, {}
            self._monitor.log_step(step, held | scalars, rollouts=rollouts, policy_version=max(0, step - 1))

    def finish(self) -> None:
        """Send the remaining records; verl also calls this while an exception ends the trainer."""
        self._monitor.close("finished" if sys.exc_info()[0] is None else "stopped")


def _is_validation_alone(config: Mapping[str, Any]) -> bool:
    """Whether verl validates a checkpoint and trains no step."""
    try:
        return bool(config["trainer"]["val_only"])
    except (KeyError, TypeError):
        return False


def _names(config: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the canonical names of the metrics whose numbers are what the names say."""
    try:
        is_mean = config["actor_rollout_ref"]["actor"]["loss_agg_mode"] in MEANS
    except (KeyError, TypeError):  # an older verl has means alone
        return VERL
    return VERL if is_mean else {name: signal for name, signal in VERL.items() if name not in LIKE_THE_LOSS}


def _has_one_update(config: Mapping[str, Any]) -> bool:
    """Whether a rollout batch makes one optimiser step, whose ratios are to the trainer's own log-probabilities."""
    try:
        # The ratios are then to the sampler's log-probabilities, and show how far it is from the trainer.
        correction = config.get("algorithm", {}).get("rollout_correction") or {}
        if correction.get("bypass_mode"):
            return False
        # The fully asynchronous trainer makes several updates, with ratios to the policy before them.
        if "async_training" in config:
            return False
        actor = config["actor_rollout_ref"]["actor"]
        return bool(actor["ppo_epochs"] == 1 and actor["ppo_mini_batch_size"] >= config["data"]["train_batch_size"])
    except (AttributeError, KeyError, TypeError):
        return False
