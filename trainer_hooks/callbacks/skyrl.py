"""Watches SkyRL: ``trainer.add_callback(VitalsCallback())``.

SkyRL removes rewards and prompts from the batch before the step ends, so they are read when advantages are computed,
or before SkyRL subtracts the KL penalty from the rewards.
"""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

import trainer_hooks
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.method_wrappers import Method, MethodWrappers
from trainer_hooks.callbacks.shared.naming import PARTIAL_STEP, SKYRL, canonical
from trainer_hooks.callbacks.shared.one_time_warnings import OneTimeWarnings
from trainer_hooks.settings import find_project, find_run_name
from trainer_hooks.signals.loss_sums import on_policy
from trainer_hooks.wire import RunEnd

__all__ = ["VitalsCallback"]

# The parts of SkyRL's step that run the models, in their order. If memory runs out, it does so in one of them.
STEP_METHODS = ("fwd_logprobs_values_reward", "compute_advantages_and_returns", "train_critic_and_policy")

# The losses whose ratios are to the sampler's log-probabilities, and show how far it is from the trainer.
SAMPLER_LOSSES = ("rollout_is", "dppo")

# SkyRL averages these over microbatches, and one without a token of the loss counts as 0.
MEANS_OF_MICROBATCHES = (
    "policy/policy_entropy",
    "policy/policy_kl",
    "policy/loss_metrics/clip_ratio",
    "policy/ppo_clip_ratio",
)

NO_REWARDS = "SkyRL has no compute_advantages_and_returns, and tokens are not observed"
NO_SAMPLER = (
    "the gap between sampler and trainer (mismatch/...) is not observed, because SkyRL's batch has no "
    "rollout_logprobs: set generator.sampling_params.logprobs=0; a generator of your own must return them"
)
NO_TRAINER_SCORES = (
    "the gap between sampler and trainer (mismatch/...) is not observed, because this loss skips the policy's forward "
    "pass before the update and SkyRL's batch has no action_log_probs: likelihoods are the sampler's. "
    "With every trainer.algorithm.policy_loss_type except rollout_is, dppo, and cispo with cispo_anchor=rollout, "
    "SkyRL computes both"
)


class VitalsCallback:
    """A SkyRL TrainingCallback: logs the driver's tokens and metrics at the end of each step.

    It has the methods of `skyrl.train.utils.callbacks.TrainingCallback` that it needs, and ignores every other event,
    so that it can be used without importing SkyRL. If an exception ends a step, the callback sends what is known of the
    step before the exception propagates. If the callback has made the monitor itself, the run is then ``stopped``.

    Args:
        monitor: A monitor that you have connected and close yourself. Unless given, the callback connects one from
            `RLVITALS_URL` and SkyRL's configuration.
    """

    def __init__(self, monitor: "trainer_hooks.Monitor | None" = None) -> None:
        self._monitor = monitor
        self._is_own = monitor is None
        self._is_on_policy = False
        self._names: Mapping[str, str] = SKYRL
        self._guard = Guard()
        self._wrappers = MethodWrappers()
        self._rewards_and_uids: tuple[Any, list[str]] | None = None
        self._unpenalised: Any = None
        self._advantages: Any = None
        self._rollouts: dict[str, Any] | None = None
        self._warnings = OneTimeWarnings()
        # Whether the next log may be of an evaluation before the first step, and its metrics until that step is logged.
        self._may_evaluate_first = False
        self._held: Mapping[str, Any] = {}

    def __getattr__(self, name: str) -> Method:
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(name)

    def on_train_start(self, trainer: Any, callback_input: Any = None, control: Any = None) -> None:
        """Connect, and wrap the methods that a step consists of.

        Raises:
            ConfigurationError: If a setting cannot work. This happens before the first step.
        """
        settings = getattr(getattr(trainer, "cfg", None), "trainer", None)
        if self._monitor is None:
            self._monitor = trainer_hooks.connect(
                project=find_project(None) or getattr(settings, "project_name", None),
                run=find_run_name(None) or getattr(settings, "run_name", None),
                config={"trainer": {} if settings is None else settings},
                rank=0,
                world_size=1,
                source="skyrl",
            )
            self._monitor.end_at_exit = "stopped"
        self._guard.count_for(self._monitor)
        with self._guard:
            self._wrappers.restore()  # those of a training that an exception ended
            if not self._wrappers.wrap(trainer, "compute_advantages_and_returns", self._around_advantages):
                self._warnings.log(NO_REWARDS)
            # SkyRL calls it only with algorithm.use_kl_in_reward.
            self._wrappers.wrap(trainer, "apply_reward_kl_penalty", self._before_penalty)
            for name in STEP_METHODS:
                self._wrappers.wrap(trainer, name, functools.partial(self._sending_partial_step, trainer))
            self._is_on_policy = _has_one_update(settings)
            self._names = _names(getattr(trainer, "cfg", None))
        self._may_evaluate_first, self._held = True, {}
        self._unpenalised = self._advantages = None

    def on_step_end(self, trainer: Any, callback_input: Any, control: Any = None) -> None:
        """Read the step's tokens; its metrics are not complete yet."""
        self._may_evaluate_first = False
        with self._guard:
            self._rollouts = self._rollouts_of(callback_input.batch)

    def on_log(self, trainer: Any, callback_input: Any, control: Any = None) -> None:
        """Log the step, or an evaluation before the first one.

        A training that resumes evaluates at the checkpoint's step. That step has the numbers of its training already,
        which a record of a new attempt would replace, so the evaluation waits for the first step.
        """
        is_before_training, self._may_evaluate_first = self._may_evaluate_first, False
        with self._guard:
            if is_before_training and trainer.global_step > 0:
                self._held = callback_input.logs or {}
                return
            rollouts, self._rollouts = self._rollouts, None
            self._log_step(trainer, callback_input.logs or {}, rollouts)

    def on_train_end(self, trainer: Any, callback_input: Any = None, control: Any = None) -> None:
        """Restore SkyRL's methods and send the remaining records."""
        with self._guard:
            self._wrappers.restore()
            self._close_own("finished")

    def _close_own(self, end: RunEnd) -> None:
        """Close a monitor that this callback has connected; another training connects anew."""
        if self._monitor is not None and self._is_own:
            self._monitor.close(end)
            self._monitor = None

    def _before_penalty(self, original: Method) -> Method:
        @functools.wraps(original)
        def apply_reward_kl_penalty(*args: Any, **kwargs: Any) -> Any:
            with self._guard:
                self._unpenalised = _rewards(_batch(args, kwargs))
            return original(*args, **kwargs)

        return apply_reward_kl_penalty

    def _around_advantages(self, original: Method) -> Method:
        @functools.wraps(original)
        def compute_advantages_and_returns(*args: Any, **kwargs: Any) -> Any:
            with self._guard:
                batch = _batch(args, kwargs)
                rewards, self._unpenalised = self._unpenalised, None
                rewards = _rewards(batch) if rewards is None else rewards
                self._rewards_and_uids = rewards, list(batch.metadata["uids"])
            outcome = original(*args, **kwargs)
            with self._guard:
                # The update scales the batch's advantages for the loss.
                advantages = outcome.get("advantages")
                self._advantages = None if advantages is None else advantages.clone()
            return outcome

        return compute_advantages_and_returns

    def _sending_partial_step(self, trainer: Any, original: Method) -> Method:
        @functools.wraps(original)
        def part_of_a_step(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except BaseException:
                with self._guard:
                    self._end_in_partial_step(trainer, _batch(args, kwargs))
                raise

        return part_of_a_step

    def _end_in_partial_step(self, trainer: Any, batch: Any) -> None:
        """Log what is known of the step that an exception ends, such as one that runs out of memory."""
        rollouts = None
        with self._guard:
            rollouts = self._rollouts_of(batch)
        self._log_step(trainer, {**getattr(trainer, "all_metrics", {}), PARTIAL_STEP: 1.0}, rollouts)
        # SkyRL calls no callback after an exception, and Ray may end this process before it exits by itself.
        self._close_own("stopped")

    def _log_step(self, trainer: Any, metrics: Mapping[str, object], rollouts: dict[str, Any] | None) -> None:
        if self._monitor is None:
            return
        held, self._held = self._held, {}
        scalars = canonical({**held, **metrics}, self._names, prefix="skyrl")
        if self._is_on_policy:
            scalars = on_policy(scalars)
        step = int(trainer.global_step)
        self._monitor.log_step(step, scalars, rollouts=rollouts, policy_version=max(0, step - 1))

    def _rollouts_of(self, batch: Mapping[str, Any]) -> dict[str, Any] | None:
        known, self._rewards_and_uids = self._rewards_and_uids, None
        advantages, self._advantages = self._advantages, None
        if known is None:
            return None
        sampler = batch.get("rollout_logprobs")
        logprobs = batch.get("action_log_probs")
        if sampler is None:
            self._warnings.log(NO_SAMPLER)
        elif logprobs is None:
            self._warnings.log(NO_TRAINER_SCORES)
            # With the sampler's log-probabilities in both places, the mismatch would be 0.
            logprobs, sampler = sampler, None
        if logprobs is None:
            return None
        rewards, uids = known
        # The last rows repeat the first rows, to pad the batch.
        real = len(rewards) - int((batch.metadata or {}).get("pad_size", 0))  # type: ignore[attr-defined]
        optional = {
            "sampler_logprobs": sampler,
            "ref_logprobs": batch.get("base_action_log_probs"),
            "advantages": advantages,
        }
        # response_mask is also True on the environment's tokens.
        mask = batch["loss_mask"][:real]
        return {name: found[:real] for name, found in optional.items() if found is not None} | {
            "logprobs": logprobs[:real],
            "mask": mask,
            "rewards": rewards[:real],
            "group_ids": np.unique(np.array(uids[:real], dtype=str), return_inverse=True)[1],
            "token_ids": batch["sequences"][:real, -mask.shape[1] :],
        }


def _batch(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the batch, which is the first argument of SkyRL's methods, by position or by name."""
    return next(iter((*args, *kwargs.values())), {})


def _names(config: Any) -> Mapping[str, str]:
    """Return the canonical names of the metrics whose numbers are what the names say."""
    algorithm = getattr(getattr(config, "trainer", None), "algorithm", None)
    leaves_responses_out = getattr(algorithm, "zero_variance_filter", False) or getattr(
        getattr(config, "generator", None), "apply_overlong_filtering", False
    )
    if not leaves_responses_out:
        return SKYRL
    return {name: signal for name, signal in SKYRL.items() if name not in MEANS_OF_MICROBATCHES}


def _has_one_update(settings: Any) -> bool:
    """Whether a rollout batch makes one optimiser step, whose ratios are to the trainer's own log-probabilities."""
    algorithm = getattr(settings, "algorithm", None)
    loss = getattr(algorithm, "policy_loss_type", None)
    # SkyRL 0.3 has no anchor: its cispo compares with the trainer.
    anchor = getattr(getattr(algorithm, "cispo", None), "cispo_anchor", None)
    if loss in SAMPLER_LOSSES or (loss == "cispo" and anchor == "rollout"):
        return False
    try:
        batch, minibatch = settings.train_batch_size, settings.policy_mini_batch_size
        return bool(settings.update_epochs_per_batch == 1 and minibatch >= batch)
    except AttributeError:
        return False


def _rewards(batch: Any) -> Any:
    """Return one reward per row; a row that is a step of a trajectory has the reward of the trajectory's last step."""
    rewards = batch["rewards"].detach().float().cpu()
    sums = rewards.sum(dim=-1) if rewards.ndim > 1 else rewards
    is_last = batch.metadata.get("is_last_step")
    if is_last is None:
        return sums
    ends = np.flatnonzero(np.asarray(is_last, dtype=bool))
    return sums[ends[np.searchsorted(ends, np.arange(len(sums)))]]
