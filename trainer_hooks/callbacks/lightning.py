"""A callback for Lightning: ``Trainer(callbacks=[VitalsCallback()])``."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

import trainer_hooks
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.microbatches import Microbatches
from trainer_hooks.callbacks.shared.naming import TRANSFORMERS, canonical
from trainer_hooks.callbacks.shared.repetitions import remove_repetitions
from trainer_hooks.errors import RolloutsError
from trainer_hooks.model_monitors.gradients import norm_of_gradients

__all__ = ["VitalsCallback"]

ROLLOUTS = "rollouts"


class VitalsCallback(Callback):
    """Sends each optimiser step: loss, gradient norm before clipping, learning rate and what the module logs.

    To send the token signals too, return ``{"loss": loss, "rollouts": {...}}`` from ``training_step``, with the
    arguments of `trainer_hooks.Rollouts`. Each rank sends its own responses. Where Lightning accumulates gradients, the
    loss is the mean over the step's batches, and their responses are concatenated.

    Args:
        monitor: A monitor that you have connected and close yourself; the connection arguments below are then ignored.
        url: Address of the collector; else `RLVITALS_URL`. Without either nothing happens.
        project: Project of the run.
        run: Name of the run; else `RLVITALS_RUN`.
        api_key: Key with the scope ingest.
        on_alert: Called with each alert that fires on the run, in a background thread.

    Several processes need a name of the run. Processes that Lightning starts itself also need `RLVITALS_ATTEMPT`.
    Without these, a `ConfigurationError` is raised before the first step.
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
    ) -> None:
        self._monitor = monitor
        self._is_own = monitor is None
        self._connect = functools.partial(
            trainer_hooks.connect, url, project, run, api_key=api_key, on_alert=on_alert, source="lightning"
        )
        self._guard = Guard()
        self._grad_norm: torch.Tensor | None = None
        self._learning_rate: float | None = None
        self._first_step = self._last_step = 0
        # These belong to the batches since the last step.
        self._losses: list[torch.Tensor] = []
        self._microbatches = Microbatches()
        self._logged: dict[str, torch.Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, for another training: what belongs to the one under way stays here."""
        batches = {"_losses": [], "_microbatches": Microbatches(), "_grad_norm": None, "_logged": {}}
        return vars(self) | batches | ({"_monitor": None, "_guard": Guard()} if self._is_own else {})

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Connect, before the first step."""
        remove_repetitions(self, trainer.callbacks)  # type: ignore[attr-defined]
        self._first_step = self._last_step = trainer.global_step
        # A training that failed leaves the batches of its last step.
        self._losses.clear()
        self._microbatches.clear()
        if self._monitor is None:
            self._monitor = self._connect(
                config=pl_module.hparams, rank=trainer.global_rank, world_size=trainer.world_size
            )
        self._guard.count_for(self._monitor)

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Read the gradients before Lightning clips them."""
        if isinstance(self._monitor, trainer_hooks.NullMonitor):
            return
        with self._guard:
            self._learning_rate = float(optimizer.param_groups[0]["lr"])
            # Weights of other optimisers may hold older gradients, and a wrapped optimiser has weights of its own.
            own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
            self._grad_norm = norm_of_gradients([weight for weight in pl_module.parameters() if id(weight) in own])
            scaler = getattr(trainer.precision_plugin, "scaler", None)
            # Lightning leaves it to a fused optimiser to divide by the scale.
            if self._grad_norm is not None and scaler and getattr(optimizer, "_step_supports_amp_scaling", False):
                self._grad_norm = self._grad_norm / scaler.scale(torch.ones_like(self._grad_norm))

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Drop the batches of a step that the end of an epoch cut off, because Lightning drops their gradients."""
        if pl_module.automatic_optimization:
            self._losses.clear()
            self._microbatches.clear()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Add the batch, and log the step, if this batch ended one."""
        if self._monitor is None or isinstance(self._monitor, trainer_hooks.NullMonitor):
            return
        is_last = trainer.global_step != self._last_step
        results = outputs if isinstance(outputs, Mapping) else {"loss": outputs}
        with self._guard:
            if isinstance(results.get("loss"), torch.Tensor):
                self._losses.append(results["loss"].detach())
        with self._guard:
            if results.get(ROLLOUTS) is not None:
                try:
                    self._microbatches.add(results[ROLLOUTS], is_last=is_last)
                except RolloutsError as error:
                    self._monitor.drops.count_rollouts(error)
        if not is_last:
            return
        scalars: dict[str, Any] = {}
        rollouts = None
        with self._guard:
            if trainer.is_global_zero:
                scalars = self._scalars(trainer)
        self._losses.clear()
        with self._guard:
            rollouts = self._microbatches.concatenate()
        self._monitor.log_step(trainer.global_step, scalars, rollouts=rollouts, policy_version=self._last_step)
        self._last_step = trainer.global_step

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Send the metrics that were logged after the last step, such as those of the last epoch, and close."""
        with self._guard:
            found = canonical(self._new_metrics(trainer), TRANSFORMERS, prefix="lightning")
            # What a training without a step logs would replace numbers of the training before it.
            has_step = trainer.global_step != self._first_step
            if self._monitor is not None and found and has_step and trainer.is_global_zero:
                self._monitor.log_step(trainer.global_step, found)
        self._close("finished")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Send the remaining records, and report the run as ``stopped``."""
        self._close("stopped")

    def _scalars(self, trainer: Trainer) -> dict[str, Any]:
        """Return the step's numbers by canonical name; some may be tensors that are still being computed."""
        numbers: dict[str, Any] = {**canonical(self._new_metrics(trainer), TRANSFORMERS, prefix="lightning")}
        if self._losses:
            # Lightning has divided each loss by the number of batches in a step.
            numbers["loss/policy"] = torch.stack(self._losses).float().mean() * trainer.accumulate_grad_batches
        if self._learning_rate is not None:
            numbers["lr"] = self._learning_rate
        if self._grad_norm is not None:
            numbers["grad/norm"] = self._grad_norm
        return numbers

    def _new_metrics(self, trainer: Trainer) -> dict[str, float]:
        """Return the metrics logged since the last step, without the older values that Lightning keeps among them."""
        new = {
            name: value
            for name, value in trainer.callback_metrics.items()
            if not _is_same(value, self._logged.get(name))
        }
        self._logged |= new
        return self._monitor.read_numbers(new) if self._monitor is not None else {}

    def _close(self, end: "trainer_hooks.wire.RunEnd") -> None:
        if self._monitor is not None and self._is_own:
            self._monitor.close(end)
            self._monitor = None


def _is_same(value: object, held: object) -> bool:
    """Whether a metric is the one kept before; a value that is logged again has other memory than the kept one."""
    if isinstance(value, torch.Tensor) and isinstance(held, torch.Tensor):
        return value.data_ptr() == held.data_ptr()
    return value is held
