"""Watches SkyRL: ``trainer.add_callback(VitalsCallback())``.

SkyRL pops rewards and prompts from the batch before the step ends, so they are read when advantages are computed.
"""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import trainer_hooks
from trainer_hooks.callbacks.parts.guard import Guard, Wrappings
from trainer_hooks.callbacks.parts.naming import SKYRL, canonical

__all__ = ["VitalsCallback"]

logger = logging.getLogger("trainer_hooks")

Method = Callable[..., Any]


class VitalsCallback:
    """A SkyRL TrainingCallback: hands over the driver's tokens and metrics at the end of each step.

    It has the methods of `skyrl.train.utils.callbacks.TrainingCallback` that it needs, and answers any other event
    with nothing, so that it can be used without importing SkyRL.

    Args:
        monitor: A monitor of your own, which is yours to close; else one is connected from `RLVITALS_URL` and SkyRL's
            configuration.
    """

    def __init__(self, monitor: "trainer_hooks.Monitor | None" = None) -> None:
        self._monitor = monitor
        self._is_own = monitor is None
        self._is_on_policy = False
        self._guard = Guard()
        self._wrappings = Wrappings()
        self._outcomes: tuple[Any, list[str]] | None = None
        self._rollouts: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Method:
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(name)

    def on_train_start(self, trainer: Any, callback_input: Any = None, control: Any = None) -> None:
        """Connect, and listen where advantages are computed.

        Raises:
            ConfigurationError: If a setting cannot work; the first step is still to come.
        """
        settings = getattr(getattr(trainer, "cfg", None), "trainer", None)
        if self._monitor is None:
            self._monitor = trainer_hooks.connect(
                project=getattr(settings, "project_name", "default"),
                run=getattr(settings, "run_name", None),
                config={"trainer": getattr(settings, "__dict__", {})},
                rank=0,
                world_size=1,
                source="skyrl",
            )
        self._guard.tell(self._monitor)
        with self._guard:
            if not self._wrappings.wrap(trainer, "compute_advantages_and_returns", self._around_advantages):
                logger.warning("rlvitals: SkyRL has no compute_advantages_and_returns, and tokens are not observed")
            self._is_on_policy = _has_one_update(settings)

    def on_step_end(self, trainer: Any, callback_input: Any, control: Any = None) -> None:
        """Take the step's tokens; its metrics are not complete yet."""
        with self._guard:
            self._rollouts = self._rollouts_of(callback_input.batch)

    def on_log(self, trainer: Any, callback_input: Any, control: Any = None) -> None:
        """Hand the step over, or an evaluation before the first."""
        with self._guard:
            if self._monitor is None:
                return
            rollouts, self._rollouts = self._rollouts, None
            scalars = canonical(callback_input.logs or {}, SKYRL, prefix="skyrl")
            if self._is_on_policy:
                # One update a rollout batch: 0 by construction.
                scalars.pop("ratio/clip_frac", None)
            step = int(trainer.global_step)
            self._monitor.log_step(step, scalars, rollouts=rollouts, policy_version=max(0, step - 1))

    def on_train_end(self, trainer: Any, callback_input: Any = None, control: Any = None) -> None:
        """Deliver what is left."""
        with self._guard:
            self._wrappings.undo()
            if self._monitor is not None and self._is_own:
                self._monitor.close()

    def _around_advantages(self, original: Method) -> Method:
        @functools.wraps(original)
        def compute_advantages_and_returns(*args: Any, **kwargs: Any) -> Any:
            with self._guard:
                (batch,) = (*args, *kwargs.values())[:1]
                self._outcomes = _rewards(batch), list(batch.metadata["uids"])
            return original(*args, **kwargs)

        return compute_advantages_and_returns

    def _rollouts_of(self, batch: Mapping[str, Any]) -> dict[str, Any] | None:
        outcomes, self._outcomes = self._outcomes, None
        if outcomes is None or batch.get("action_log_probs") is None:
            return None
        rewards, uids = outcomes
        # The last rows repeat the first, to fill a batch up.
        real = len(rewards) - int((batch.metadata or {}).get("pad_size", 0))  # type: ignore[attr-defined]
        optional = {
            "sampler_logprobs": "rollout_logprobs",
            "ref_logprobs": "base_action_log_probs",
            "advantages": "advantages",
        }
        found = {name: batch[theirs][:real] for name, theirs in optional.items() if batch.get(theirs) is not None}
        # response_mask is True on the environment's tokens, too.
        mask = batch["loss_mask"][:real]
        return found | {
            "logprobs": batch["action_log_probs"][:real],
            "mask": mask,
            "rewards": rewards[:real],
            "group_ids": np.unique(np.array(uids[:real], dtype=str), return_inverse=True)[1],
            "token_ids": batch["sequences"][:real, -mask.shape[1] :],
        }


def _has_one_update(settings: Any) -> bool:
    """Say whether the configuration makes one optimiser step a rollout batch."""
    try:
        batch, minibatch = settings.train_batch_size, settings.policy_mini_batch_size
        return bool(settings.update_epochs_per_batch == 1 and minibatch >= batch)
    except AttributeError:
        return False


def _rewards(batch: Any) -> Any:
    """Give one reward a row; where rows are steps of a trajectory, each that of its last step."""
    rewards = batch["rewards"].detach().float().cpu()
    sums = rewards.sum(dim=-1) if rewards.ndim > 1 else rewards
    is_last = batch.metadata.get("is_last_step")
    if is_last is None:
        return sums
    ends = np.flatnonzero(np.asarray(is_last, dtype=bool))
    return sums[ends[np.searchsorted(ends, np.arange(len(sums)))]]
