"""Watches slime: ``--rollout-data-postprocess-path trainer_hooks.callbacks.slime.watch``.

slime calls it on every rank once log-probabilities and advantages are there. Each rank streams its own responses; the
address is `RLVITALS_URL`, the name of the run `RLVITALS_RUN` (needed where there are several ranks).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import trainer_hooks
from trainer_hooks.callbacks.guard import Guard
from trainer_hooks.callbacks.sample_lists import padded

__all__ = ["watch"]

guard = Guard()
_monitors: list["trainer_hooks.Monitor"] = []


def watch(args: Any, rollout_id: int, rollout_data: Mapping[str, Any]) -> None:
    """Hand a rollout's responses over as the step of its number; never raises once connected.

    Args:
        args: slime's arguments.
        rollout_id: Number of the rollout, from 0.
        rollout_data: Per-response lists: ``response_lengths, loss_masks, log_probs, ref_log_probs,
            rollout_log_probs, advantages, raw_reward, rewards``; what is absent is left out.
    """
    if not _monitors:
        _monitors.append(trainer_hooks.connect(config=vars(args), source="slime"))
        guard.tell(_monitors[0])
    with guard:
        _monitors[0].log_step(rollout_id + 1, rollouts=_rollouts(rollout_data), policy_version=rollout_id)


def _rollouts(data: Mapping[str, Any]) -> dict[str, Any] | None:
    scores = data.get("log_probs") or data.get("rollout_log_probs")
    rewards = data.get("raw_reward") or data.get("rewards")
    # log_probs is absent where slime takes them from the training forward, and then only the sampler's are there.
    if not scores or not rewards:
        return None
    optional = {
        # Beside themselves they would show a mismatch of 0.
        "sampler_logprobs": data.get("rollout_log_probs") if data.get("log_probs") else None,
        "ref_logprobs": data.get("ref_log_probs"),
        "advantages": data.get("advantages"),
    }
    return {
        "logprobs": padded(scores),
        "mask": padded(data["loss_masks"]).astype(bool),
        "rewards": np.asarray(rewards, dtype=float),
        "token_ids": _responses(data),
    } | {name: padded(rows) for name, rows in optional.items() if rows}


def _responses(data: Mapping[str, Any]) -> Any:
    """Give the response's ids, which slime holds at the end of the whole sequence's."""
    tokens: Sequence[Any] | None = data.get("tokens")
    lengths: Sequence[int] | None = data.get("response_lengths")
    if not tokens or not lengths:
        return None
    return padded([row[len(row) - size :] for row, size in zip(tokens, lengths, strict=True)]).astype(np.int64)
