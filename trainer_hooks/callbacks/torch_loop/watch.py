"""Logs a step of a plain PyTorch loop each time its optimiser steps."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, SupportsFloat

import torch

import trainer_hooks
from trainer_hooks.actions import Decision
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.naming import PARTIAL_STEP
from trainer_hooks.callbacks.torch_loop.decisions import LoopDecisions
from trainer_hooks.callbacks.torch_loop.skipped_updates import SkippedUpdates
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.model_monitors import ModelMonitors
from trainer_hooks.model_monitors.gradients import norm_of_gradients
from trainer_hooks.probes.paired import Paired
from trainer_hooks.probes.recomputation import Forward, RecomputationProbe, ReportedResponses
from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.probes.rescoring import PairedProbe, Scorer
from trainer_hooks.recording.records import whole_step
from trainer_hooks.text_safety import describe_error, describe_object
from trainer_hooks.wire import ActionReport

__all__ = ["LoopWatch"]


class LoopWatch:
    """Logs a step each time the optimiser steps: gradient norm, learning rate, and the numbers that you noted.

        with LoopWatch(optimizer, trainer_hooks.connect()) as watch:
            for batch in data:
                ...
                watch.note({"loss/policy": loss, "reward/mean": rewards.mean()}, rollouts={...})
                optimizer.step()

    The gradient norm is that of the gradients that the optimiser receives; if its step is given a closure, that of the
    gradients that the closure computed last. If you clip them, note the norm that ``clip_grad_norm_`` returns as
    ``grad/norm``, because the norm after clipping is a constant. Note it under FSDP too: a sharded norm cannot be read
    without a collective, so it is left out.

    If an exception ends the block, the numbers noted since the last step are sent first, marked ``hooks/partial_step``.
    So are numbers with a loss that is NaN or infinite, if the loss is noted again, or the watch closed, without a step
    in between: a GradScaler skips such an update, and the optimiser does not step.

    Args:
        optimizer: Any torch optimiser, prepared by Accelerate or not.
        monitor: From `trainer_hooks.connect`; closed when the block ends. If it has a policy, ``connect(actions=...)``,
            read ``decisions`` after the steps and carry them out in your loop. Where `torch.distributed` has several
            processes, a decision appears after the same step on every rank, or on none.
        first_step: Number of the first step. When training resumes, this is the checkpoint's step plus 1.
        model_monitors: Constructed with the loop's model; measures it at every n-th step, with the gradients that the
            optimiser sees. Off unless given.
        probe_every: Score the responses given to `score_again` at every n-th step (level L4); off unless given. Give
            it on every rank: several processes score from the third step on, and only if all of them do.
        recompute_every: Compute the responses given to `recompute` again at every n-th step; off unless given. Give it
            on every rank, likewise.

    Raises:
        ConfigurationError: If the model monitors have no model, ``optimizer`` is no torch optimiser, ``monitor`` no
            monitor, or ``first_step`` no step.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        monitor: "trainer_hooks.Monitor",
        *,
        first_step: int = 1,
        model_monitors: ModelMonitors | None = None,
        probe_every: int | None = None,
        recompute_every: int | None = None,
    ) -> None:
        if not hasattr(monitor, "log_step"):
            given = type(monitor).__name__
            raise ConfigurationError(f"monitor must be what trainer_hooks.connect returns, got {given}")
        self._probe = PairedProbe(probe_every) if probe_every else None
        self._recomputation = (
            RecomputationProbe(recompute_every, on_error=monitor.drops.count_error) if recompute_every else None
        )
        self._recomputed: list[Recomputed] = []
        self._decisions = LoopDecisions(monitor.begin_acting())
        self._monitor = monitor
        self._model_monitors = model_monitors
        self._guard = Guard()
        self._guard.count_for(monitor)
        self._step = _read_first_step(first_step)
        self._scalars: dict[str, SupportsFloat] = {}
        self._rollouts: trainer_hooks.Rollouts | Mapping[str, Any] | None = None
        self._skipped = SkippedUpdates(lambda problem: monitor.drops.warn("no step", problem, once=True))
        self._handles = []
        if not isinstance(monitor, trainer_hooks.NullMonitor):
            stepping = _unwrap(optimizer)
            # A loop may compile its optimiser's step, and torch would trace the hooks too.
            before, after = map(torch.compiler.disable, (self._before_step, self._after_step))
            self._handles.append(stepping.register_step_pre_hook(before))
            self._handles.append(stepping.register_step_post_hook(after))
            if model_monitors is not None:
                model_monitors.attach()
                model_monitors.begin_step(self._step)

    @property
    def decisions(self) -> Sequence[Decision]:
        """The decisions to carry out now. They stay until the first step after they were read."""
        return self._decisions.read()

    def note(
        self,
        scalars: Mapping[str, SupportsFloat] | None = None,
        *,
        rollouts: "trainer_hooks.Rollouts | Mapping[str, Any] | None" = None,
    ) -> None:
        """Note numbers and token arrays of the next optimiser step; a name noted twice keeps the later value.

        Args:
            scalars: Numbers by canonical signal name or by a name of your own.
            rollouts: The step's token arrays, as in `Monitor.log_step`.
        """
        if not self._handles:
            return
        try:
            noted = {} if scalars is None else dict(scalars)
            if self._skipped.note(self._scalars, noted):
                self._log_partial_step()
            self._scalars.update(noted)
        except Exception as error:  # noqa: BLE001 - nothing of ours raises into training
            given = describe_object(type(scalars))
            self._monitor.drops.count("scalars", f"note needs numbers by name, got {given}: {describe_error(error)}")
        self._rollouts = self._rollouts if rollouts is None else rollouts

    def go_back(self, step: int) -> None:
        """Number the next optimiser step ``step``, after the loop has loaded a checkpoint: its step plus 1.

        From this step on, the run's history consists of the new steps. The numbers noted for an unfinished step are
        dropped. Decisions about alerts that opened at ``step`` or later are refused. If ``step`` is no number, that is
        counted as an error, and the numbers of the steps continue.
        """
        with self._guard:
            self._step = int(step)
            self._decisions.go_back(self._step)
        self._decisions.clear()
        self._scalars, self._rollouts, self._recomputed = {}, None, []
        self._skipped.end()

    def score_again(
        self,
        score: Scorer,
        *,
        mask: torch.Tensor,
        correct: torch.Tensor,
        fresh: torch.Tensor | None = None,
        before: tuple[torch.Tensor, torch.Tensor | None] | None = None,
    ) -> None:
        """Score responses before and after the next optimiser step, if that step is a multiple of ``probe_every``.

        Use responses that have no influence on the step: those that you hold out from it, or those of groups whose
        rewards are all equal. With several processes, call this equally often on every rank.

        Args:
            score: Returns log-probabilities, and entropies or None, under the current weights, ``(B, T)``, nats.
            mask: True on action tokens, shape ``(B, T)``.
            correct: Whether each response is correct, shape ``(B,)``.
            fresh: True on responses that have no influence on the step, shape ``(B,)``; all unless given.
            before: The result that ``score`` would return now, where the loss has it anyway; saves one of two forward
                passes.
        """
        with self._guard:
            if self._probe is not None and self._handles and self._probe.is_due(self._step):
                self._probe.note(score, mask=mask, correct=correct, fresh=fresh, before=before)

    def recompute(self, model: torch.nn.Module, reported: ReportedResponses, *, forward: Forward | None = None) -> None:
        """Compute the numbers of a few responses again, if the next step is a multiple of ``recompute_every``.

        Call it after the pass that gave the numbers and before the optimiser's step, because the numbers must be
        compared with the weights that produced them. With several processes, call this equally often on every rank.

        Args:
            model: The model, as the loop calls it, wrappers included.
            reported: The responses, and the numbers that the loss has used.
            forward: Runs the model; unless given, the model is called as a causal language model of transformers is.
        """
        if self._recomputation is not None and self._handles and self._recomputation.is_due(self._step):
            self._recomputed += self._recomputation.recompute(model, reported, forward=forward)

    def close(self) -> None:
        """Remove the hooks from the optimiser and close the monitor; safe to call twice."""
        self._log_last_numbers(has_raised=False)
        self._detach()
        self._monitor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._log_last_numbers(has_raised=kind is not None)
        self._detach()
        self._monitor.__exit__(kind, error, traceback)

    def _detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if self._model_monitors is not None:
            self._model_monitors.remove()

    def _log_last_numbers(self, *, has_raised: bool) -> None:
        if self._handles and (has_raised or self._skipped.has_failed(self._scalars)):
            self._log_partial_step()

    def _log_partial_step(self) -> None:
        """Log the numbers noted for a step that ends before its update."""
        scalars, rollouts = self._scalars, self._rollouts
        self._scalars, self._rollouts = {}, None
        if scalars or rollouts is not None:
            scalars |= {PARTIAL_STEP: 1.0}
            self._monitor.log_step(self._step, scalars, rollouts=rollouts, policy_version=self._step - 1)

    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> None:
        if not _has_closure(args, kwargs):
            self._measure(optimizer)

    def _measure(self, optimizer: torch.optim.Optimizer) -> None:
        # A fused optimiser divides by the scale of a GradScaler itself, which hands it over as this attribute.
        scale = getattr(optimizer, "grad_scale", None)
        with self._guard:
            if self._model_monitors is not None:
                self._model_monitors.measure_gradients(scale)
        with self._guard:
            groups = optimizer.param_groups
            self._scalars.setdefault("lr", float(groups[0]["lr"]))
            if "grad/norm" in self._scalars:
                return
            norm = norm_of_gradients([weight for group in groups for weight in group["params"]])
            if norm is not None:
                self._scalars["grad/norm"] = norm if scale is None else norm / scale

    def _after_step(
        self, optimizer: torch.optim.Optimizer, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> None:
        if _has_closure(args, kwargs):
            self._measure(optimizer)
        scalars, rollouts = self._scalars, self._rollouts
        self._scalars, self._rollouts = {}, None
        self._skipped.end()
        reports: list[ActionReport] = []
        with self._guard:
            reports = self._decisions.after_step(self._step)
            scalars |= {f"action/{report.action}": 1.0 for report in reports if report.outcome == "taken"}
        with self._guard:
            if self._model_monitors is not None:
                scalars |= self._model_monitors.end_step()
        paired: Sequence[Paired] = ()
        with self._guard:  # the model monitors have detached by now
            paired = self._probe.after_update() if self._probe else ()
        recomputed, self._recomputed = self._recomputed, []
        if self._recomputation is not None:
            self._recomputation.after_step()
        self._monitor.log_step(
            self._step,
            scalars,
            rollouts=rollouts,
            policy_version=self._step - 1,
            paired=paired,
            recomputed=recomputed,
            actions=reports,
        )
        self._step += 1
        with self._guard:
            if self._model_monitors is not None:
                self._model_monitors.begin_step(self._step)


def _read_first_step(given: float) -> int:
    try:
        return whole_step(given)
    except Exception as error:  # whatever an object of the user's raises
        raise ConfigurationError(f"first_step must be an integer from 0 on, got {describe_object(given)}") from error


def _unwrap(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return the optimiser that steps. Accelerate's wrapper is an Optimizer too, but it has no hooks."""
    has_hooks = hasattr(optimizer, "_optimizer_step_pre_hooks")
    found = optimizer if has_hooks else getattr(optimizer, "optimizer", optimizer)
    if not isinstance(found, torch.optim.Optimizer):
        raise ConfigurationError(
            f"optimizer must be a torch.optim.Optimizer, or hold one as .optimizer, got {type(found).__name__}; "
            "give the one that steps, or call Monitor.log_step after each step instead"
        )
    return found


def _has_closure(args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether the optimiser's step computes the gradients itself, so that those before it are the last step's.

    Args:
        args: What the step was called with; the first is the optimiser.
        kwargs: What it was called with by name.
    """
    return callable(args[1] if len(args) > 1 else kwargs.get("closure"))
