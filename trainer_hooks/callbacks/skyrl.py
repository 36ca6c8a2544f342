"""Watches SkyRL: ``trainer.add_callback(VitalsCallback())``.

SkyRL pops rewards from the batch before the step ends, so they are read when advantages are computed.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import trainer_hooks
from trainer_hooks.callbacks.guard import Guard, Wrappings
from trainer_hooks.callbacks.naming import SKYRL, canonical

__all__ = ["VitalsCallback"]

Method = Callable[..., Any]


class VitalsCallback:
    """A SkyRL TrainingCallback: hands over the driver's tokens and metrics at the end of each step.

    It has the methods of `skyrl.train.utils.callbacks.TrainingCallback` that it needs, and answers any other event
    with nothing, so that it can be used without importing SkyRL.

    Args:
        monitor: A monitor of your own; else one is connected from `RLVITALS_URL` and SkyRL's configuration.
    """

    def __init__(self, monitor: "trainer_hooks.Monitor | None" = None) -> None:
        self._monitor = monitor
        self._guard = Guard()
        self._wrappings = Wrappings()
        self._rewards: Any = None

    def __getattr__(self, name: str) -> Method:
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(name)

    def on_train_start(self, trainer: Any, callback_input: Any = None, control: Any = None) -> None:
        """Connect, and listen where advantages are computed."""
        if self._monitor is None:
            self._monitor = trainer_hooks.connect(source="skyrl", rank=0, world_size=1)
        self._wrappings.wrap(trainer, "compute_advantages_and_returns", self._around_advantages)

    def on_step_end(self, trainer: Any, callback_input: Any, control: Any = None) -> None:
        """Hand the step over."""
        with self._guard:
            if self._monitor is None:
                return
            metrics = getattr(callback_input, "metrics", None) or {}
            self._monitor.log_step(
                int(trainer.global_step),
                canonical(metrics, SKYRL, prefix="skyrl"),
                rollouts=self._rollouts(callback_input.batch),
                policy_version=int(trainer.global_step) - 1,
            )

    def on_train_end(self, trainer: Any, callback_input: Any = None, control: Any = None) -> None:
        """Deliver what is left."""
        with self._guard:
            self._wrappings.undo()
            if self._monitor is not None:
                self._monitor.close()

    def _around_advantages(self, original: Method) -> Method:
        @functools.wraps(original)
        def compute_advantages_and_returns(batch: Any, *args: Any, **kwargs: Any) -> Any:
            with self._guard:
                self._rewards = batch["rewards"].detach().float().cpu()
            return original(batch, *args, **kwargs)

        return compute_advantages_and_returns

    def _rollouts(self, batch: Mapping[str, Any]) -> dict[str, Any] | None:
        rewards, self._rewards = self._rewards, None
        if rewards is None:
            return None
        optional = {
            "sampler_logprobs": "rollout_logprobs",
            "ref_logprobs": "base_action_log_probs",
            "advantages": "advantages",
        }
        found = {name: batch[theirs] for name, theirs in optional.items() if batch.get(theirs) is not None}
        return found | {
            "logprobs": batch["action_log_probs"],
            # response_mask is True on the environment's tokens, too.
            "mask": batch["loss_mask"],
            "rewards": rewards.sum(dim=-1) if rewards.ndim > 1 else rewards,
        }
