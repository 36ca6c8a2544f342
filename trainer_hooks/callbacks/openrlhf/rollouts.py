"""Converts OpenRLHF's experiences to the arguments of `trainer_hooks.Rollouts`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer_hooks.callbacks.shared.sample_lists import pad

__all__ = ["rollout_arguments"]


def rollout_arguments(experiences: Sequence[Any], samples_per_prompt: int) -> dict[str, Any]:
    """Build the arguments for a step's responses, with log-probabilities of the policy before the step's updates.

    Args:
        experiences: OpenRLHF's experiences, each a few responses.
        samples_per_prompt: Responses of one group, whose indices follow each other.
    """

    def rows(name: str) -> list[Any] | None:
        found = [getattr(experience, name) for experience in experiences]
        return None if any(rows is None for rows in found) else [row for rows in found for row in rows]

    masks = rows("action_mask")
    ids = [row[-experience.action_mask.shape[1] :] for experience in experiences for row in experience.sequences]
    index = [place for experience in experiences for place in experience.index]
    rewards = [value for experience in experiences for value in experience.info.get("reward", experience.rewards)]
    optional = {
        "sampler_logprobs": rows("rollout_log_probs"),
        "ref_logprobs": rows("base_action_log_probs"),
        "advantages": rows("advantages"),
    }
    truncated = rows("truncated")
    return {
        "logprobs": pad(rows("action_log_probs") or []),
        "mask": pad(masks or []).astype(bool),
        "rewards": np.array([float(value) for value in rewards]),
        "group_ids": np.array(index) // samples_per_prompt,
        "token_ids": pad(ids).astype(np.int64),
        "truncated": None if truncated is None else np.array([bool(value) for value in truncated]),
    } | {name: pad(found) for name, found in optional.items() if found is not None}
