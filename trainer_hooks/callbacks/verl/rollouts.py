"""Reads the tokens of a step from verl's batches, as arguments of `trainer_hooks.Rollouts`."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer_hooks.callbacks.verl.logger import VitalsLogger

__all__ = ["note_batch", "note_queued"]

NO_TRAINER_SCORES = (
    "the gap between sampler and trainer (mismatch/...) is not observed, because verl takes the sampler's "
    "log-probabilities for those of the old policy (algorithm.rollout_correction.bypass_mode=true); with "
    "bypass_mode=false it computes its own"
)


def note_batch(logger: VitalsLogger, batch: Any) -> None:
    """Read the step's tokens from a batch of verl's RayPPOTrainer."""
    uids = batch.non_tensor_batch.get("uid", batch.non_tensor_batch.get("index"))
    mask = logger.sampled_mask(_response_mask(batch.batch))
    logger.note_rollouts(_rollout_arguments(logger, batch.batch, mask, None if uids is None else list(uids)))


def note_queued(logger: VitalsLogger, queue: Any, batch: Any) -> None:
    """Read the step's tokens from verl's transfer queue (verl 0.9's trainer)."""
    needed = ["responses", "response_mask", "old_log_probs", "advantages", "rm_scores"]
    get = functools.partial(queue.kv_batch_get, keys=batch.keys, partition_id=batch.partition_id)
    held = None
    some = ["entropy", "rollout_log_probs"]
    for optional in ([*some, "ref_log_prob"], some, some[:1], some[1:]):
        try:
            held = get(select_fields=[*needed, *optional])
            break
        except Exception:  # noqa: BLE001, S112 - the queue cannot be asked which fields it holds
            continue
    tensors = (held if held is not None else get(select_fields=needed)).to_padded_tensor()
    real = [index for index, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]
    # Keys are {uid}_{session}_{index}; responses to one prompt share the uid.
    uids = [batch.keys[index].rsplit("_", 2)[0] for index in real]
    mask = logger.sampled_mask(_response_mask(tensors))[real]
    rows = {name: tensors[name][real] for name in tensors.keys()}  # noqa: SIM118 - a TensorDict
    logger.note_rollouts(_rollout_arguments(logger, rows, mask, uids))


def _response_mask(tensors: Mapping[str, Any]) -> Any:
    """Return the mask of action tokens, over the responses alone."""
    # Search-R1's mask without search results is named info_mask, and covers prompt and response.
    whole = next(tensors[name] for name in ("response_mask", "info_mask", "attention_mask") if name in tensors)
    return whole[:, -tensors["responses"].shape[1] :]


def _rollout_arguments(
    logger: VitalsLogger, tensors: Mapping[str, Any], mask: Any, uids: list[Any] | None
) -> dict[str, Any]:
    """Build the arguments of `Rollouts`; the log-probabilities are those of the policy before the step's updates."""
    scores = next(tensors[name] for name in ("token_level_scores", "rm_scores") if name in tensors)
    groups = None if uids is None else np.unique(np.array(uids, dtype=str), return_inverse=True)[1]
    logprobs, sampler = tensors["old_log_probs"], tensors.get("rollout_log_probs")
    if sampler is not None and bool((logprobs.nan_to_num() == sampler.nan_to_num()).all()):
        # With the sampler's log-probabilities in both places, the mismatch would be 0.
        logger.warn_once(NO_TRAINER_SCORES)
        sampler = None
    return {
        "logprobs": logprobs,
        "mask": mask,
        "rewards": scores.sum(dim=-1),
        "advantages": tensors["advantages"],
        "token_ids": tensors["responses"],
        "entropies": tensors.get("entropy"),
        "sampler_logprobs": sampler,
        "ref_logprobs": tensors.get("ref_log_prob"),
        "group_ids": groups,
    }
