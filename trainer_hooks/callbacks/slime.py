"""Watches slime by one of two hooks; the address is `RLVITALS_URL`, the name of the run `RLVITALS_RUN`.

``--custom-rollout-log-function-path trainer_hooks.callbacks.slime.watch_samples`` reads the whole rollout in the
process that makes it, however the trainer is parallelised, with the sampler's log-probabilities.
``--rollout-data-postprocess-path trainer_hooks.callbacks.slime.watch`` reads a data-parallel rank's share of it in the
trainer, with the trainer's log-probabilities; raw rewards are not always available there. Use only one of the two.
"""

import functools
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import trainer_hooks
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.sample_lists import pad

__all__ = ["watch", "watch_samples"]

logger = logging.getLogger("trainer_hooks")

# Other estimators' rewards are normalised by their group unless --disable-rewards-normalization says otherwise.
NEVER_NORMALISED = ("ppo", "reinforce_plus_plus")

NO_DATA = "this slime passes no data to --rollout-data-postprocess-path; use watch_samples (docs/trainers/slime.md)"
CONTEXT_PARALLEL = (
    "no rank of context parallelism has whole responses, and only the mean reward is sent; use watch_samples"
)
NO_RAW_REWARDS = (
    "slime does not keep the raw rewards with each rank's responses here, and only their mean is sent; "
    "use watch_samples (docs/trainers/slime.md)"
)
NO_LOGPROBS = "slime has no log-probability for each token of the responses, and only the mean reward is sent"

guard = Guard()
_monitors: list["trainer_hooks.Monitor"] = []


@dataclass(frozen=True, slots=True)
class RankRole:
    """The data-parallel rank of this process among slime's trainers, and whether it sends that rank's records."""

    rank: int | None = None
    world_size: int | None = None
    is_sender: bool = True
    has_whole_responses: bool = True


def watch(args: Any, rollout_id: int | None = None, rollout_data: Mapping[str, Any] | None = None) -> None:
    """Log a rank's share of a rollout as the step of its number; never raises.

    Args:
        args: slime's arguments.
        rollout_id: Number of the rollout, from 0.
        rollout_data: Per-response lists: ``tokens, response_lengths, loss_masks, log_probs, ref_log_probs,
            rollout_log_probs, advantages, raw_reward, rewards, sample_indices``; what is absent is left out.
    """
    with guard:
        role = _rank_role()
        monitor = _monitor(args, role.rank, role.world_size) if role.is_sender else None
        if monitor is None:
            return
        if rollout_id is None or rollout_data is None:
            _warn_once(NO_DATA)
            return
        rollouts = _rollout_arguments(args, rollout_data) if role.has_whole_responses else _warn_once(CONTEXT_PARALLEL)
        scalars = {} if rollouts else _mean_reward(rollout_data.get("raw_reward"))
        monitor.log_step(rollout_id + 1, scalars, rollouts=rollouts, policy_version=rollout_id)


def watch_samples(rollout_id: int, args: Any, samples: Sequence[Any], *_: Any, **__: Any) -> bool:
    """Log a rollout as the step of its number; never raises.

    Args:
        rollout_id: Number of the rollout, from 0.
        args: slime's arguments.
        samples: slime's samples, with ``tokens, response_length, loss_mask, rollout_log_probs, group_index, status``.

    Returns:
        False: slime goes on with its own logging.
    """
    with guard:
        monitor = _monitor(args, rank=0, world_size=1)
        if monitor is None:
            return False
        rewards = [sample.get_reward_value(args) for sample in samples]
        rollouts = _sample_arguments(samples, rewards)
        monitor.log_step(rollout_id + 1, {} if rollouts else _mean_reward(rewards), rollouts=rollouts)
    return False


def _monitor(args: Any, rank: int | None, world_size: int | None) -> "trainer_hooks.Monitor | None":
    """Connect at the first rollout.

    Training has begun by then, so a setting that cannot work is logged and not raised.

    Returns:
        The monitor, or None where there is no collector, so that nothing needs to be read.
    """
    if not _monitors:
        try:
            monitor = trainer_hooks.connect(config=vars(args), rank=rank, world_size=world_size, source="slime")
        except trainer_hooks.ConfigurationError as error:
            logger.warning("rlvitals: this training is not watched: %s", error)
            monitor = trainer_hooks.NullMonitor()
        guard.count_for(monitor)
        _monitors.append(monitor)
    return None if isinstance(_monitors[0], trainer_hooks.NullMonitor) else _monitors[0]


def _rank_role() -> RankRole:
    """Read the rank from Megatron, if it is the backend; one of the ranks with equal data sends, as slime's logs do."""
    state: Any = sys.modules.get("megatron.core.parallel_state")
    if state is None or not state.model_parallel_is_initialized():
        return RankRole()
    return RankRole(
        rank=state.get_data_parallel_rank(with_context_parallel=False),
        world_size=state.get_data_parallel_world_size(with_context_parallel=False),
        is_sender=(
            state.get_tensor_model_parallel_rank() == 0
            and state.get_context_parallel_rank() == 0
            # The other stages do not have the trainer's log-probabilities.
            and state.is_pipeline_last_stage(ignore_virtual=True)
        ),
        has_whole_responses=state.get_context_parallel_world_size() == 1,
    )


def _rollout_arguments(args: Any, data: Mapping[str, Any]) -> dict[str, Any] | None:
    masks = data["loss_masks"]
    rewards = _rewards(args, data, len(masks))
    if rewards is None:
        return _warn_once(NO_RAW_REWARDS)
    columns = {
        name: _column(data.get(theirs), masks)
        for name, theirs in {
            "logprobs": "log_probs",
            "sampler_logprobs": "rollout_log_probs",
            "ref_logprobs": "ref_log_probs",
            "advantages": "advantages",
        }.items()
    }
    # log_probs is absent where slime takes them from the training forward pass. The sampler's log-probabilities then
    # replace them. They are not also sent as the sampler's, because the mismatch would be 0.
    if columns["logprobs"] is None:
        columns["logprobs"] = columns.pop("sampler_logprobs")
    if columns["logprobs"] is None:
        return _warn_once(NO_LOGPROBS)
    ids = [row[len(row) - len(mask) :] for row, mask in zip(data.get("tokens") or (), masks, strict=False)]
    return columns | {
        "mask": pad(masks).astype(bool),
        "rewards": np.asarray(rewards, dtype=float),
        "token_ids": pad(ids).astype(np.int64) if ids else None,
    }


def _rewards(args: Any, data: Mapping[str, Any], responses: int) -> Any:
    """Return the rewards before normalisation, one per response, or None where they cannot be determined.

    ``rewards`` belongs to this rank. ``raw_reward`` belongs to the whole rollout, in the order of its samples. Packing
    into microbatches and splitting over ranks change the order of the responses.
    """
    is_raw = not getattr(args, "rewards_normalization", True) or (
        getattr(args, "advantage_estimator", None) in NEVER_NORMALISED
    )
    rewards = data.get("rewards")
    if rewards is not None and is_raw and getattr(args, "custom_reward_post_process_path", None) is None:
        return rewards
    raw, places = data.get("raw_reward"), data.get("sample_indices")
    if raw is None or places is None or not len(raw) == len(places) == responses:
        return None
    return raw if all(place < following for place, following in pairwise(places)) else None


def _sample_arguments(samples: Sequence[Any], rewards: Sequence[Any]) -> dict[str, Any] | None:
    masks = [[1] * sample.response_length if sample.loss_mask is None else sample.loss_mask for sample in samples]
    scores = _column([sample.rollout_log_probs for sample in samples], masks)
    if scores is None or not any(map(len, masks)):
        return _warn_once(NO_LOGPROBS)
    groups = [sample.group_index for sample in samples]
    ids = [sample.tokens[len(sample.tokens) - len(mask) :] for sample, mask in zip(samples, masks, strict=True)]
    return {
        "logprobs": scores,
        "mask": pad(masks).astype(bool),
        "rewards": np.asarray(rewards, dtype=float),
        "group_ids": None if None in groups else np.array(groups),
        "token_ids": pad(ids).astype(np.int64),
        "truncated": np.array([getattr(sample.status, "value", None) == "truncated" for sample in samples]),
    }


def _column(rows: Sequence[Any] | None, masks: Sequence[Any]) -> Any:
    """Pad per-token numbers; return None if any token lacks its number, because padding would make it 0."""
    if rows is None or len(rows) != len(masks):
        return None
    # A response without a token has no numbers.
    rows = [[] if row is None and len(mask) == 0 else row for row, mask in zip(rows, masks, strict=True)]
    if any(row is None for row in rows):
        return None
    return pad(rows) if all(len(row) == len(mask) for row, mask in zip(rows, masks, strict=True)) else None


def _mean_reward(rewards: Sequence[Any] | None) -> dict[str, float]:
    if rewards is None or len(rewards) == 0:
        return {}
    return {"reward/mean": float(np.mean(np.asarray(rewards, dtype=float)))}


@functools.cache
def _warn_once(message: str) -> None:
    """Log a warning once in this process."""
    logger.warning("rlvitals: %s", message)
