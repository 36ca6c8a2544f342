"""Logs OpenRLHF's steps in its driver: metrics, rollout tokens, and the workers' sums."""

from collections.abc import Mapping, Sequence
from typing import Any

import trainer_hooks
from trainer_hooks.callbacks.openrlhf.rollouts import rollout_arguments
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.naming import OPENRLHF, canonical
from trainer_hooks.settings import find_project, find_run_name
from trainer_hooks.signals.loss_sums import NAMES, compute_signals, on_policy

__all__ = ["SUMS", "VitalsLogger", "guard", "step_and_metrics"]

# A worker returns its sums to the driver under a name that begins with this text and ends with the worker's rank.
SUMS = "rlvitals_sums_"

guard = Guard()


class VitalsLogger:
    """Replaces OpenRLHF's W&B logger: forwards every call to it, and logs the steps.

    Args:
        inner: The logger that it replaces, or None.
        args: OpenRLHF's arguments: run and project are ``logger.wandb.run_name`` and ``logger.wandb.project``, unless
            `RLVITALS_RUN` and `RLVITALS_PROJECT` name others.
        monitor: A monitor of your own.
    """

    def __init__(self, inner: Any, args: Any, *, monitor: "trainer_hooks.Monitor | None" = None) -> None:
        self._inner = inner
        names = getattr(getattr(args, "logger", None), "wandb", None)
        # The driver sends for all workers.
        self._monitor = monitor or trainer_hooks.connect(
            project=find_project(None) or getattr(names, "project", None),
            run=find_run_name(None) or getattr(names, "run_name", None),
            config=vars(args),
            rank=0,
            world_size=1,
            source="openrlhf",
        )
        if monitor is None:
            self._monitor.end_at_exit = "stopped"
        guard.count_for(self._monitor)
        self._names = _names(args)
        self._is_on_policy = _has_one_update(args)
        self._rollouts: dict[str, Any] | None = None
        self._sums: dict[str, float] = {}
        self._last_step = 0

    def note_rollouts(self, experiences: Sequence[Any], samples_per_prompt: int) -> None:
        """Keep the step's responses, before they are sent to the workers."""
        self._rollouts = rollout_arguments(experiences, samples_per_prompt)

    def note_sums(self, status: dict[str, Any]) -> None:
        """Remove the workers' sums from the values that they returned, and add them up."""
        found = [status.pop(name) for name in [*status] if name.startswith(SUMS)]
        self._sums = dict(zip(NAMES, map(sum, zip(*found, strict=True)), strict=True)) if found else {}

    def log_step(self, step: int, status: Mapping[str, Any]) -> None:
        """Log a step; ``logger.logging_steps`` has no effect on it."""
        self._last_step = step
        rollouts, self._rollouts = self._rollouts, None
        sums, self._sums = self._sums, {}
        scalars = canonical(status, self._names, prefix="openrlhf") | compute_signals(sums)
        if self._is_on_policy:
            scalars = on_policy(scalars)
        self._monitor.log_step(step, scalars, rollouts=rollouts, policy_version=step - 1)

    def log_eval(self, *args: Any, **kwargs: Any) -> Any:
        """Log an evaluation under the step that it belongs to, or under a later one that is already logged.

        In asynchronous training an evaluation arrives after the update that followed it, and a lower step than the last
        would be a rewind.
        """
        with guard:
            step, metrics = step_and_metrics(args, kwargs)
            self._monitor.log_step(max(step, self._last_step), canonical(metrics, {}, prefix="openrlhf"))
        return self._inner_method("log_eval")(*args, **kwargs)

    def close(self) -> None:
        """Send the remaining records; OpenRLHF calls this when training ends."""
        with guard:
            self._monitor.close()
        self._inner_method("close")()

    def __getattr__(self, name: str) -> Any:
        """Forward any other call, such as ``log_train``, to the inner logger; without one, ignore it."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self._inner_method(name)

    def _inner_method(self, name: str) -> Any:
        return getattr(self._inner, name) if self._inner is not None else lambda *_, **__: None


def step_and_metrics(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """Find step and metrics among the arguments that OpenRLHF passes to its loggers."""
    given = {**dict(zip(("global_step", "logs_dict"), args, strict=False)), **kwargs}
    return given["global_step"], given.get("logs_dict") or {}


def _names(args: Any) -> Mapping[str, str]:
    """Return the canonical names of the metrics whose numbers are what the names say."""
    if not getattr(getattr(getattr(args, "algo", None), "kl", None), "use_loss", False):
        return OPENRLHF
    # A term of the loss is a microbatch's share of the whole step, weighted once more by its tokens.
    return {name: signal for name, signal in OPENRLHF.items() if name != "kl"}


def _has_one_update(args: Any) -> bool:
    """Whether a rollout batch makes one optimiser step."""
    try:
        responses = args.rollout.batch_size * args.rollout.n_samples_per_prompt
        return bool(args.train.max_epochs == 1 and args.train.batch_size >= responses)
    except AttributeError:
        return False
