"""Wraps OpenRLHF's methods: of the trainer's base class (driver), of the actor's trainer and policy loss (workers).

Ray pickles decorated classes by value, so only methods of plain classes are wrapped. The workers' sums travel with the
values that a worker returns anyway, because OpenRLHF needs a collective for every number that it averages itself.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from trainer_hooks.callbacks.openrlhf.logger import SUMS, VitalsLogger, guard, step_and_metrics
from trainer_hooks.callbacks.shared.post_import import after_import, wrap
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.signals.loss_sums import token_sums

__all__ = ["register", "wrap_driver", "wrap_loss", "wrap_worker"]

Method = Callable[..., Any]


def register() -> None:
    """Install the wrappers in OpenRLHF's modules, now or when they are imported."""
    after_import("openrlhf.trainer.ppo_trainer", wrap_driver)
    after_import("openrlhf.trainer.ray.ppo_actor", wrap_worker)
    after_import("openrlhf.models.loss", wrap_loss)


def wrap_driver(module: ModuleType) -> None:
    """Add a `VitalsLogger` to every new trainer, and pass rollouts, sums and metrics to it."""
    if not _is_connected():
        return
    trainer = module.BasePPOTrainer
    wrap(trainer, "__init__", _around_init)
    wrap(trainer, "_compute_rollout_stats", _around_rollout_stats)
    wrap(trainer, "ppo_train", _around_driver_training)
    wrap(trainer, "save_logs_and_checkpoints", _around_logging)


def wrap_worker(module: ModuleType) -> None:
    """Return the sums over the tokens of all microbatches with the worker's own results."""
    if _is_connected():
        wrap(module.ActorPPOTrainer, "ppo_train", _around_worker_training)


def wrap_loss(module: ModuleType) -> None:
    """Sum over the tokens of each microbatch's loss."""
    if _is_connected():
        wrap(module.PolicyLoss, "forward", _around_loss)


def _is_connected() -> bool:
    return ConnectionSettings.resolve(rank=0, world_size=1) is not None


def _around_init(original: Method) -> Method:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it replaces one
        original(self, *args, **kwargs)
        refused: ConfigurationError | None = None
        with guard:
            try:
                self.wandb_logger = VitalsLogger(self.wandb_logger, self.args)
            except ConfigurationError as error:
                refused = error
        if refused is not None:
            raise refused  # training has not begun

    return __init__


def _around_rollout_stats(original: Method) -> Method:
    def _compute_rollout_stats(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard:
            experiences = args[0] if args else kwargs["experiences"]
            self.wandb_logger.note_rollouts(experiences, self.args.rollout.n_samples_per_prompt)
        return original(self, *args, **kwargs)

    return _compute_rollout_stats


def _around_driver_training(original: Method) -> Method:
    def ppo_train(self: Any, *args: Any, **kwargs: Any) -> Any:
        status = original(self, *args, **kwargs)
        with guard:
            self.wandb_logger.note_sums(status)
        return status

    return ppo_train


def _around_logging(original: Method) -> Method:
    def save_logs_and_checkpoints(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard:
            self.wandb_logger.log_step(*step_and_metrics(args, kwargs))
        return original(self, *args, **kwargs)

    return save_logs_and_checkpoints


def _around_worker_training(original: Method) -> Method:
    def ppo_train(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard:
            self.actor_loss_fn.rlvitals_sums = None
        status = original(self, *args, **kwargs)
        with guard:
            sums = self.actor_loss_fn.rlvitals_sums
            if sums is not None:
                # Each rank has its own name: the driver merges the results of all ranks into one mapping.
                status[f"{SUMS}{_rank()}"] = sums.tolist()
        return status

    return ppo_train


def _around_loss(original: Method) -> Method:
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
