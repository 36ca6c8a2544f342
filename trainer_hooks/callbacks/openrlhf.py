"""Watches OpenRLHF: load this module in every Ray process (`trainer_hooks.callbacks.bootstrap`), nothing else changes.

It waits for OpenRLHF's own modules and wraps methods of plain classes: the trainer's base (driver: metrics, and tokens
of the rollout) and the actor's trainer and policy loss (workers: sums over the tokens of the loss). Ray pickles
decorated classes by value, so only plain ones are wrapped. The sums travel with what a worker returns anyway, because
OpenRLHF spends a collective on every number that it averages itself.
"""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import trainer_hooks
from trainer_hooks.callbacks.parts.guard import Guard
from trainer_hooks.callbacks.parts.naming import OPENRLHF, canonical
from trainer_hooks.callbacks.parts.post_import import after_import, wrap
from trainer_hooks.callbacks.parts.sample_lists import padded
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.losses.loss_sums import NAMES, OFF_POLICY_ONLY, signals_of, token_sums
from trainer_hooks.settings import ConnectionSettings

__all__ = ["VitalsLogger"]

SUMS = "rlvitals_sums_"
Method = Callable[..., Any]

guard = Guard()


class VitalsLogger:
    """Stands in the place of OpenRLHF's W&B logger, passes everything on to it, and hands steps over.

    Args:
        inner: The logger that was there, or None.
        args: OpenRLHF's arguments: run and project are ``logger.wandb.run_name`` and ``logger.wandb.project``.
        monitor: A monitor of your own.
    """

    def __init__(self, inner: Any, args: Any, *, monitor: "trainer_hooks.Monitor | None" = None) -> None:
        self._inner = inner
        names = getattr(getattr(args, "logger", None), "wandb", None)
        # The driver speaks for all workers.
        self._monitor = monitor or trainer_hooks.connect(
            project=getattr(names, "project", "default"),
            run=getattr(names, "run_name", None),
            config=_config(args),
            rank=0,
            world_size=1,
            source="openrlhf",
        )
        guard.tell(self._monitor)
        self._is_on_policy = _has_one_update(args)
        self._rollouts: dict[str, Any] | None = None
        self._sums: dict[str, float] = {}

    def note_rollouts(self, experiences: Sequence[Any], samples_per_prompt: int) -> None:
        """Take the step's responses, before they are sent to the workers."""
        self._rollouts = _rollouts(experiences, samples_per_prompt)

    def note_sums(self, status: dict[str, Any]) -> None:
        """Take the workers' sums out of what they returned, and add them up."""
        found = [status.pop(name) for name in [*status] if name.startswith(SUMS)]
        self._sums = dict(zip(NAMES, map(sum, zip(*found, strict=True)), strict=True)) if found else {}

    def log_step(self, step: int, status: Mapping[str, Any]) -> None:
        """Hand a step over, whatever ``logger.logging_steps`` is."""
        rollouts, self._rollouts = self._rollouts, None
        sums, self._sums = self._sums, {}
        scalars = canonical(status, OPENRLHF, prefix="openrlhf") | signals_of(sums)
        if self._is_on_policy:
            scalars = {name: value for name, value in scalars.items() if not name.startswith(OFF_POLICY_ONLY)}
        self._monitor.log_step(step, scalars, rollouts=rollouts, policy_version=step - 1)

    def log_eval(self, *args: Any, **kwargs: Any) -> Any:
        """Hand an evaluation over, under the step that it belongs to."""
        with guard:
            step, metrics = _step_and_metrics(args, kwargs)
            self._monitor.log_step(step, canonical(metrics, {}, prefix="openrlhf"))
        return self._passed_on("log_eval")(*args, **kwargs)

    def close(self) -> None:
        """Deliver what is left; OpenRLHF calls this when training is over."""
        with guard:
            self._monitor.close()
        self._passed_on("close")()

    def __getattr__(self, name: str) -> Any:
        """Be the logger that was there, ``log_train`` included, which we have had; without one, take anything."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self._passed_on(name)

    def _passed_on(self, name: str) -> Any:
        return getattr(self._inner, name) if self._inner is not None else lambda *_, **__: None


def _step_and_metrics(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """Find the two in what OpenRLHF calls its loggers with."""
    given = {**dict(zip(("global_step", "logs_dict"), args, strict=False)), **kwargs}
    return given["global_step"], given.get("logs_dict") or {}


def _config(args: Any) -> dict[str, Any]:
    """Give the arguments as nested mappings; those of loggers hold keys to other people's services."""
    return {
        name: _config(value) if hasattr(value, "__dict__") else value
        for name, value in vars(args).items()
        if name != "logger"
    }


def _has_one_update(args: Any) -> bool:
    """Say whether a rollout batch makes one optimiser step."""
    try:
        responses = args.rollout.batch_size * args.rollout.n_samples_per_prompt
        return bool(args.train.max_epochs == 1 and args.train.batch_size >= responses)
    except AttributeError:
        return False


def _rollouts(experiences: Sequence[Any], samples_per_prompt: int) -> dict[str, Any]:
    """Give the arguments of Rollouts: the policy before this step's updates."""

    def rows(name: str) -> list[Any] | None:
        found = [getattr(experience, name) for experience in experiences]
        return None if any(rows is None for rows in found) else [row for rows in found for row in rows]

    masks = rows("action_mask")
    ids = [row[-experience.action_mask.shape[1] :] for experience in experiences for row in experience.sequences]
    index = [place for experience in experiences for place in experience.index]
    rewards = [value for experience in experiences for value in experience.info.get("reward", experience.rewards)]
    optional = {
        "sampler_logprobs": rows("rollout_log_probs"),
        "ref_logprobs": rows("base_action_log_probs"),
        "advantages": rows("advantages"),
    }
    truncated = rows("truncated")
    return {
        "logprobs": padded(rows("action_log_probs") or []),
        "mask": padded(masks or []).astype(bool),
        "rewards": np.array([float(value) for value in rewards]),
        "group_ids": np.array(index) // samples_per_prompt,
        "token_ids": padded(ids).astype(np.int64),
        "truncated": None if truncated is None else np.array([bool(value) for value in truncated]),
    } | {name: padded(found) for name, found in optional.items() if found is not None}


def _watch_driver(module: ModuleType) -> None:
    """Put our logger into every trainer that is made, and show it rollouts, sums and metrics."""
    if not _is_wanted():
        return
    trainer = module.BasePPOTrainer
    wrap(trainer, "__init__", _with_logger)
    wrap(trainer, "_compute_rollout_stats", _noting_rollouts)
    wrap(trainer, "ppo_train", _noting_sums)
    wrap(trainer, "save_logs_and_checkpoints", _logging_steps)


def _watch_worker(module: ModuleType) -> None:
    """Send the sums over the tokens of all microbatches with what the worker returns."""
    if _is_wanted():
        wrap(module.ActorPPOTrainer, "ppo_train", _returning_sums)


def _watch_loss(module: ModuleType) -> None:
    """Sum over the tokens of each microbatch's loss."""
    if _is_wanted():
        wrap(module.PolicyLoss, "forward", _summing)


def _is_wanted() -> bool:
    return ConnectionSettings.resolve(rank=0, world_size=1) is not None


def _with_logger(original: Method) -> Method:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it takes the place of one
        original(self, *args, **kwargs)
        refused: ConfigurationError | None = None
        with guard:
            try:
                self.wandb_logger = VitalsLogger(self.wandb_logger, self.args)
            except ConfigurationError as error:
                refused = error
        if refused is not None:
            raise refused  # nothing is trained yet

    return __init__


def _noting_rollouts(original: Method) -> Method:
    def _compute_rollout_stats(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard:
            experiences = args[0] if args else kwargs["experiences"]
            self.wandb_logger.note_rollouts(experiences, self.args.rollout.n_samples_per_prompt)
        return original(self, *args, **kwargs)

    return _compute_rollout_stats


def _noting_sums(original: Method) -> Method:
    def ppo_train(self: Any, *args: Any, **kwargs: Any) -> Any:
        status = original(self, *args, **kwargs)
        with guard:
            self.wandb_logger.note_sums(status)
        return status

    return ppo_train


def _logging_steps(original: Method) -> Method:
    def save_logs_and_checkpoints(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard:
            self.wandb_logger.log_step(*_step_and_metrics(args, kwargs))
        return original(self, *args, **kwargs)

    return save_logs_and_checkpoints


def _returning_sums(original: Method) -> Method:
    def ppo_train(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard:
            self.actor_loss_fn.rlvitals_sums = None
        status = original(self, *args, **kwargs)
        with guard:
            sums = self.actor_loss_fn.rlvitals_sums
            if sums is not None:
                # A name of its own on each rank: the driver puts what all ranks return into one mapping.
                status[f"{SUMS}{_rank()}"] = sums.tolist()
        return status

    return ppo_train


def _summing(original: Method) -> Method:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        outcome = original(self, *args, **kwargs)
        with guard:
            names = ("log_probs", "old_log_probs", "advantages", "action_mask")
            given = dict(zip(names, args, strict=False)) | kwargs
            logprobs, old, advantages, mask = (given[name].detach() for name in names)
            found = token_sums(old, logprobs, advantages, mask)
            held = getattr(self, "rlvitals_sums", None)
            self.rlvitals_sums = found if held is None else held + found
        return outcome

    return forward


def _rank() -> int:
    from torch import distributed  # noqa: PLC0415 - loaded by now, and this module is imported in every process

    return distributed.get_rank() if distributed.is_initialized() else 0


after_import("openrlhf.trainer.ppo_trainer", _watch_driver)
after_import("openrlhf.trainer.ray.ppo_actor", _watch_worker)
after_import("openrlhf.models.loss", _watch_loss)
