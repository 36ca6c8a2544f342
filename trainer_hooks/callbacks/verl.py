"""Watches verl: ``trainer.logger=["console","rlvitals"]``, nothing else changes.

verl 0.9 and newer loads this module by its entry point ``verl.plugins`` in every process; 0.6 to 0.8 load it by
``VERL_USE_EXTERNAL_MODULES=trainer_hooks.callbacks.verl``. It waits for verl's own modules and wraps functions of
theirs: the logger (driver), rejection sampling and the metrics of a step (driver, tokens of the rollout), and the
policy losses (workers, sums of the loss tokens, only where `RLVITALS_URL` is set). Ray pickles decorated classes by
value, so only plain functions and classes are wrapped.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

import trainer_hooks
from trainer_hooks.callbacks.parts.guard import Guard
from trainer_hooks.callbacks.parts.naming import VERL, canonical
from trainer_hooks.callbacks.parts.post_import import after_import, wrap
from trainer_hooks.losses.loss_sums import OFF_POLICY_ONLY, signals_of
from trainer_hooks.settings import ConnectionSettings

__all__ = ["VitalsLogger"]

NAME = "rlvitals"
SUMS = "actor/rlvitals_"
Function = Callable[..., Any]

guard = Guard()


class VitalsLogger:
    """One of verl's loggers: has ``log(data, step)``, and what the driver saw of the step's tokens since the last.

    Args:
        project: verl's ``trainer.project_name``.
        run: verl's ``trainer.experiment_name``.
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
        # The driver speaks for all workers.
        self._monitor = monitor or trainer_hooks.connect(
            project=project, run=run, config=config, rank=0, world_size=1, source="verl"
        )
        guard.tell(self._monitor)
        self._is_on_policy = _has_one_update(config or {})
        self._rollouts: dict[str, Any] | None = None
        self._masks: tuple[Any, Any] | None = None
        VitalsLogger.current = self

    def note(self, rollouts: dict[str, Any]) -> None:
        """Take the step's token arrays, before verl logs it."""
        self._rollouts = rollouts

    def note_rejection(self, sampled: Any, kept: Any) -> None:
        """Take the mask of what was sampled, and the one that rejection sampling leaves for the loss."""
        self._masks = sampled, kept

    def as_sampled(self, mask: Any) -> Any:
        """Give the mask before rejection sampling, where it is this one that was left."""
        if self._masks is None:
            return mask
        sampled, kept = self._masks
        return sampled if kept.shape == mask.shape and bool((kept == mask).all()) else mask

    def log(self, data: Mapping[str, Any], step: int, **_: Any) -> None:
        """Hand a step over; verl also logs validations, under the same step."""
        with guard:
            rollouts, self._rollouts, self._masks = self._rollouts, None, None
            sums = {name: float(value) for name, value in data.items() if name.startswith(SUMS)}
            metrics = {name: value for name, value in data.items() if name not in sums}
            loss = signals_of({name.removeprefix(SUMS): value for name, value in sums.items()})
            scalars = canonical(metrics, VERL, prefix="verl") | loss
            if self._is_on_policy:
                scalars = {name: value for name, value in scalars.items() if not name.startswith(OFF_POLICY_ONLY)}
            self._monitor.log_step(step, scalars, rollouts=rollouts, policy_version=step - 1)

    def finish(self) -> None:
        """Deliver what is left; verl also calls this while an exception takes the trainer down."""
        self._monitor.close("finished" if sys.exc_info()[0] is None else "stopped")


def _has_one_update(config: Mapping[str, Any]) -> bool:
    """Say whether the configuration makes one optimiser step a rollout batch."""
    try:
        actor = config["actor_rollout_ref"]["actor"]
        return bool(actor["ppo_epochs"] == 1 and actor["ppo_mini_batch_size"] >= config["data"]["train_batch_size"])
    except (KeyError, TypeError):
        return False


def _watch_tracking(module: ModuleType) -> None:
    """Make ``rlvitals`` one of verl's loggers."""
    tracking = module.Tracking
    tracking.supported_backend = [*tracking.supported_backend, NAME]
    wrap(tracking, "__init__", _with_logger)
    if hasattr(tracking, "finish"):
        wrap(tracking, "finish", _closing)


def _with_logger(original: Function) -> Function:
    signature = inspect.signature(original)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it takes the place of one
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


def _closing(original: Function) -> Function:
    def finish(self: Any, *args: Any, **kwargs: Any) -> Any:
        with guard:
            if NAME in self.logger:
                self.logger[NAME].finish()
        return original(self, *args, **kwargs)

    return finish


def _watch_trainer(module: ModuleType) -> None:
    """Read the step's tokens from the transfer queue before verl clears it (verl 0.9's trainer)."""

    def around(original: Function) -> Function:
        def _compute_metrics(self: Any, *args: Any, **kwargs: Any) -> Any:
            with guard:
                if VitalsLogger.current is not None:
                    _note_queued(VitalsLogger.current, module.tq, _batch(args, kwargs))
            return original(self, *args, **kwargs)

        return _compute_metrics

    wrap(module.PPOTrainer, "_compute_metrics", around)  # verl has no other place to stand


def _watch_legacy_trainer(module: ModuleType) -> None:
    """Read the step's tokens where verl sums them up (RayPPOTrainer: up to 0.8, and ``use_v1=False``)."""

    def around(original: Function) -> Function:
        def compute_data_metrics(*args: Any, **kwargs: Any) -> Any:
            with guard:
                if VitalsLogger.current is not None:
                    batch = _batch(args, kwargs)
                    uids = batch.non_tensor_batch.get("uid", batch.non_tensor_batch.get("index"))
                    mask = VitalsLogger.current.as_sampled(_mask(batch.batch))
                    VitalsLogger.current.note(_rollouts(batch.batch, mask, None if uids is None else list(uids)))
            return original(*args, **kwargs)

        return compute_data_metrics

    wrap(module, "compute_data_metrics", around)


def _watch_correction(module: ModuleType) -> None:
    """Keep the mask that rejection sampling rewrites before either trainer's metrics are made (verl 0.6 and newer)."""

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


def _note_queued(logger: VitalsLogger, queue: Any, batch: Any) -> None:
    needed = ["responses", "response_mask", "old_log_probs", "advantages", "rm_scores"]
    get = functools.partial(queue.kv_batch_get, keys=batch.keys, partition_id=batch.partition_id)
    held = None
    for optional in (["entropy", "rollout_log_probs"], ["entropy"], ["rollout_log_probs"]):
        try:
            held = get(select_fields=[*needed, *optional])
            break
        except Exception:  # noqa: BLE001, S112 - the queue has no way to ask what it holds
            continue
    tensors = (held if held is not None else get(select_fields=needed)).to_padded_tensor()
    real = [index for index, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]
    # Keys are {uid}_{session}_{index}; responses to one prompt share the uid.
    uids = [batch.keys[index].rsplit("_", 2)[0] for index in real]
    mask = logger.as_sampled(_mask(tensors))[real]
    rows = {name: tensors[name][real] for name in tensors.keys()}  # noqa: SIM118 - a TensorDict
    logger.note(_rollouts(rows, mask, uids))


def _mask(tensors: Mapping[str, Any]) -> Any:
    """Give the mask of action tokens, over the responses alone."""
    # Search-R1 names the mask that leaves search results out info_mask, and has it over prompt and response.
    whole = next(tensors[name] for name in ("response_mask", "info_mask", "attention_mask") if name in tensors)
    return whole[:, -tensors["responses"].shape[1] :]


def _rollouts(tensors: Mapping[str, Any], mask: Any, uids: list[Any] | None) -> dict[str, Any]:
    """Give the arguments of Rollouts: the policy before this step's updates, which is the one that sampled."""
    scores = next(tensors[name] for name in ("token_level_scores", "rm_scores") if name in tensors)
    groups = None if uids is None else np.unique(np.array(uids, dtype=str), return_inverse=True)[1]
    return {
        "logprobs": tensors["old_log_probs"],
        "mask": mask,
        "rewards": scores.sum(dim=-1),
        "advantages": tensors["advantages"],
        "token_ids": tensors["responses"],
        "entropies": tensors.get("entropy"),
        "sampler_logprobs": tensors.get("rollout_log_probs"),
        "ref_logprobs": tensors.get("ref_log_prob"),
        "group_ids": groups,
    }


def _watch_losses(module: ModuleType) -> None:
    """Let every registered policy loss return sums of its tokens beside its metrics, and register LLDS."""
    if not hasattr(module, "POLICY_LOSS_REGISTRY"):  # verl up to 0.3, and Search-R1
        return
    from trainer_hooks.losses.verl import register_llds, with_sums  # noqa: PLC0415 - torch is there by now

    register_llds()
    registry = module.POLICY_LOSS_REGISTRY
    if ConnectionSettings.resolve(rank=0, world_size=1) is not None:
        registry.update({name: with_sums(loss, SUMS, guard) for name, loss in registry.items()})


after_import("verl.utils.tracking", _watch_tracking)
after_import("verl.trainer.ppo.core_algos", _watch_losses)
after_import("verl.trainer.ppo.rollout_corr_helper", _watch_correction)
after_import("verl.trainer.ppo.v1.trainer_base", _watch_trainer)
after_import("verl.trainer.ppo.ray_trainer", _watch_legacy_trainer)
