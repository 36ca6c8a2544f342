"""Watches TRL's GRPOTrainer and RLOOTrainer: one line in the training script, nothing else changes.

    trainer = GRPOTrainer(..., callbacks=[VitalsCallback()])

Events are turned into steps as for any transformers Trainer; this module adds what only TRL has.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trainer_hooks
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.callbacks import transformers
from trainer_hooks.callbacks.parts.step_capture import StepCapture
from trainer_hooks.callbacks.trl.capture import TokenCapture
from trainer_hooks.model_monitors import ModelMonitors
from trainer_hooks.probes.rescoring import PairedProbe

__all__ = ["VitalsCallback"]


class VitalsCallback(transformers.VitalsCallback):
    """Streams the vital signs of a TRL run, each optimiser step, each rank its own responses.

    The trainer is found when training begins, and its methods are wrapped on that object alone until training ends.
    What fires decides the capability level: L3 with the tokens of the loss, L1 with nothing but TRL's own metrics
    (where the loss is fused out of sight, as by Liger or Unsloth).

    Weights, gradients and random generators are the same with and without it. Nothing raises once training has
    begun; a connection setting that cannot work raises before the first step.

    Args:
        monitor: A monitor of your own; then the connection and the closing are yours.
        url: Address of the collector; else `RLVITALS_URL`. Without either nothing happens.
        project: Project of the run.
        run: Name of the run; else `RLVITALS_RUN`, else ``run_name`` of the training arguments. Give one to have a
            resumed training continue its run.
        api_key: Key with the scope ingest.
        on_alert: Called with each alert that fires on the run, in a background thread.
        policy: What to do about alerts. A monitor of your own has it from ``connect(actions=...)``.
        correct: Name of the reward function whose positive value says that a response is correct. Without it a
            response is correct where its weighted reward is positive: name it if you also reward format or length.
        control_ids: Token ids of your protocol, such as the opening of a tool call.
        probe_every: Score one microbatch again after the update at every n-th step (level L4): tells entropy change
            and displacement also where there is one update a rollout. Costs a forward pass of a microbatch, about
            0.27 / (n · gradient accumulation steps) of the training part of a step. Under FSDP, ZeRO-3 and DDP
            that pass is collective; all ranks make it at the same steps, from the third on, or none does. Off unless
            given.
        reserved: At those steps, also score responses that you hold out from the update: a function that is given the
            trainer, on every rank, and gives the arguments of `trainer_hooks.probes.rescoring.PairedProbe.note`. Costs
            two forward passes of them, one where it gives ``before``.
        model_monitors: Looks into the model at every n-th step, on rank 0; nobody does unless given.
    """

    library = "trl"

    def __init__(
        self,
        monitor: "trainer_hooks.Monitor | None" = None,
        *,
        url: str | None = None,
        project: str = "default",
        run: str | None = None,
        api_key: str | None = None,
        on_alert: "Callable[[trainer_hooks.AlertNotice], object] | None" = None,
        policy: ActionPolicy | None = None,
        correct: str | None = None,
        control_ids: Sequence[int] | None = None,
        probe_every: int | None = None,
        reserved: Callable[[Any], Mapping[str, Any]] | None = None,
        model_monitors: ModelMonitors | None = None,
    ) -> None:
        super().__init__(
            monitor,
            url=url,
            project=project,
            run=run,
            api_key=api_key,
            on_alert=on_alert,
            policy=policy,
            model_monitors=model_monitors,
        )
        self._correct = correct
        self._control_ids = control_ids
        self._probe = PairedProbe(probe_every) if probe_every else None
        self._reserved = reserved

    def capture_of(self, trainer: Any, *, texts: bool) -> StepCapture:
        """Catch tokens, where there are any, with what the user said about them, and the metrics of any TRL trainer."""
        return TokenCapture(
            trainer,
            self._guard,
            texts=texts,
            correct=self._correct,
            control_ids=self._control_ids,
            probe=self._probe,
            reserved=self._reserved,
        )
