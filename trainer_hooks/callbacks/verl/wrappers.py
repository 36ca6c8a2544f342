"""Wraps verl's functions: its logger, metrics and rejection sampling (driver), and its policy losses (workers).

Ray pickles decorated classes by value, so only plain functions and classes are wrapped. Policy losses are wrapped only
where `RLVITALS_URL` is set.
"""

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from trainer_hooks.callbacks.shared.post_import import after_import, wrap
from trainer_hooks.callbacks.verl.logger import NAME, SUMS, VitalsLogger, guard
from trainer_hooks.callbacks.verl.rollouts import note_batch, note_queued
from trainer_hooks.settings import ConnectionSettings

__all__ = ["register", "wrap_legacy_trainer", "wrap_losses", "wrap_rejection", "wrap_tracking", "wrap_trainer"]

Function = Callable[..., Any]


def register() -> None:
    """Install the wrappers in verl's modules, now or when they are imported."""
    after_import("verl.utils.tracking", wrap_tracking)
    after_import("verl.trainer.ppo.core_algos", wrap_losses)
    after_import("verl.trainer.ppo.rollout_corr_helper", wrap_rejection)
    after_import("verl.trainer.ppo.v1.trainer_base", wrap_trainer)
    after_import("verl.trainer.ppo.ray_trainer", wrap_legacy_trainer)
    after_import("verl.experimental.separation.ray_trainer", wrap_legacy_trainer)


def wrap_tracking(module: ModuleType) -> None:
    """Make ``rlvitals`` one of verl's loggers."""
    tracking = module.Tracking
    tracking.supported_backend = [*tracking.supported_backend, NAME]
    wrap(tracking, "__init__", _around_init)
    if hasattr(tracking, "finish"):
        wrap(tracking, "finish", _around_finish)


def _around_init(original: Function) -> Function:
    signature = inspect.signature(original)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it replaces one
        original(self, *args, **kwargs)
        asked: tuple[Any, ...] | None = None
        with guard:
            given = signature.bind(self, *args, **kwargs)
            given.apply_defaults()
            project, run, backends = (
                given.arguments[name] for name in ("project_name", "experiment_name", "default_backend")
            )
            if NAME in ([backends] if isinstance(backends, str) else backends):
                asked = project, run, given.arguments.get("config")
        if asked is None:
            return
        logger = VitalsLogger(*asked)
        with guard:
            self.logger[NAME] = logger

    return __init__


def _around_finish(original: Function) -> Function:
    def finish(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard:
            if NAME in self.logger:
                self.logger[NAME].finish()
        return original(self, *args, **kwargs)

    return finish


def wrap_trainer(module: ModuleType) -> None:
    """Read the step's tokens from the transfer queue before verl clears it (verl 0.9's trainer)."""

    def around(original: Function) -> Function:
        def _compute_metrics(self: Any, *args: Any, **kwargs: Any) -> Any:
            with guard:
                if VitalsLogger.current is not None:
                    note_queued(VitalsLogger.current, module.tq, _batch(args, kwargs))
            return original(self, *args, **kwargs)

        return _compute_metrics

    wrap(module.PPOTrainer, "_compute_metrics", around)  # verl has no public hook here


def wrap_legacy_trainer(module: ModuleType) -> None:
    """Read the step's tokens where verl computes its data metrics.

    These are RayPPOTrainer (to 0.8, and ``use_v1=False``), and the one-step-off-policy and fully asynchronous trainers.
    """

    def around(original: Function) -> Function:
        def compute_data_metrics(*args: Any, **kwargs: Any) -> Any:
            with guard:
                if VitalsLogger.current is not None:
                    note_batch(VitalsLogger.current, _batch(args, kwargs))
            return original(*args, **kwargs)

        return compute_data_metrics

    wrap(module, "compute_data_metrics", around)


def wrap_rejection(module: ModuleType) -> None:
    """Keep the mask that rejection sampling overwrites before the step's metrics are computed (verl 0.6 and newer)."""

    def around(original: Function) -> Function:
        def compute_rollout_correction_and_add_to_batch(*args: Any, **kwargs: Any) -> Any:
            sampled = None
            with guard:
                sampled = _batch(args, kwargs).batch["response_mask"]
            outcome = original(*args, **kwargs)
            with guard:
                if VitalsLogger.current is not None and sampled is not None:
                    VitalsLogger.current.note_rejection(sampled, outcome[0].batch["response_mask"])
            return outcome

        return compute_rollout_correction_and_add_to_batch

    wrap(module, "compute_rollout_correction_and_add_to_batch", around)


def _batch(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return args[0] if args else kwargs["batch"]


def wrap_losses(module: ModuleType) -> None:
    """Let every registered policy loss return sums of its tokens beside its metrics, and register LLDS."""
    if not hasattr(module, "POLICY_LOSS_REGISTRY"):  # verl up to 0.3, and Search-R1
        return
    from trainer_hooks.losses.verl import register_presets, with_sums  # noqa: PLC0415 - torch is imported by now

    register_presets()
    registry = module.POLICY_LOSS_REGISTRY
    if ConnectionSettings.resolve(rank=0, world_size=1) is not None:
        registry.update({name: with_sums(loss, SUMS, guard) for name, loss in registry.items()})
