"""The callback for TRL: the events of any Hugging Face Trainer, with what only TRL's trainers have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trainer_hooks
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.callbacks.shared.hf_trainer.callback import StreamingCallback
from trainer_hooks.callbacks.shared.hf_trainer.capture import StepCapture
from trainer_hooks.callbacks.trl.capture import RolloutCapture
from trainer_hooks.model_monitors import ModelMonitors
from trainer_hooks.probes.recomputation import RecomputationProbe
from trainer_hooks.probes.rescoring import PairedProbe
from trainer_hooks.rollouts import read_control_ids

__all__ = ["VitalsCallback"]


class VitalsCallback(StreamingCallback):
    """Sends the signals of a TRL run at each optimiser step; each rank sends its own responses.

    The trainer is found when training begins, and its methods are wrapped on that object alone until training ends.
    The capability level depends on which of these methods are called: L3 where the loss computes token
    log-probabilities with them, L1 with TRL's own metrics alone (where a fused loss, such as Liger's or Unsloth's,
    computes no token log-probabilities that can be read).

    Weights, gradients and random generators are the same with and without it. After training has begun, the callback
    raises no error; a connection setting that cannot work raises an error before the first step.

    Args:
        monitor: A monitor that you have connected and close yourself; the connection arguments are then ignored.
        url: Address of the collector; else `RLVITALS_URL`. Without either nothing happens.
        project: Project of the run.
        run: Name of the run; else `RLVITALS_RUN`, else ``run_name`` of the training arguments. Give one to have a
            resumed training continue its run.
        api_key: Key with the scope ingest.
        on_alert: Called with each alert that fires on the run, in a background thread.
        policy: What to do about alerts. A monitor of your own has it from ``connect(actions=...)``.
        correct: Name of the reward function whose positive value means that a response is correct. Without it, if no
            function has this name, and where the function returned None, a response is correct if its weighted reward
            is positive. Name one if you also reward format or length.
        control_ids: Token ids of your protocol, such as the opening of a tool call.
        probe_every: Score one microbatch again after the update at every n-th step (level L4). This measures entropy
            change and displacement also where there is one update per rollout. It costs a forward pass of a microbatch,
            about 0.27 / (n · gradient accumulation steps) of the training part of a step. Under FSDP, ZeRO-3 and DDP
            that pass is collective; all ranks make it at the same steps, from the third on, or none does. Off unless
            given.
        reserved: At those steps, also score responses that you hold out from the update. This is a function that takes
            the trainer, on every rank, and returns the arguments of
            `trainer_hooks.probes.rescoring.PairedProbe.note`. It costs two forward passes of these responses, or one
            where it returns ``before``.
        recompute_every: At every n-th step, compute log-probabilities, entropies and mask of a few responses again
            without TRL's scorer, before the update, and send how far TRL's numbers are from them
            (``instrument/…``). It costs a forward pass of these responses without gradients; off unless given. Under
            FSDP, ZeRO-3 and DDP that pass is collective like that of ``probe_every``. Under DeepSpeed it needs at least
            two microbatches a step, and with LOMO and layer-wise optimisers it is off, because these update in the
            backward pass.
        recompute_responses: Most responses of a rank that are computed again at a time.
        model_monitors: Measures the model at every n-th step, on rank 0; off unless given.

    Raises:
        ConfigurationError: If both a monitor and a policy are given, or the policy asks for a rollback.
        RolloutsError: If ``control_ids`` are not integers.
        ValueError: If an interval or a number of responses is too small.
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
        recompute_every: int | None = None,
        recompute_responses: int = 2,
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
        self._control_ids = read_control_ids(control_ids)
        self._probe = PairedProbe(probe_every) if probe_every else None
        self._reserved = reserved
        self._recomputation = (
            RecomputationProbe(recompute_every, responses=recompute_responses) if recompute_every else None
        )

    def create_capture(self, trainer: Any, *, texts: bool) -> StepCapture:
        """Create the object that reads this trainer's steps; a trainer without rollouts has only metrics."""
        return RolloutCapture(
            trainer,
            self._guard,
            texts=texts,
            correct=self._correct,
            control_ids=self._control_ids,
            probe=self._probe,
            reserved=self._reserved,
            recomputation=self._recomputation,
        )
