"""Reads the token exports of prime-rl, one folder a step, as arguments of `trainer_hooks.Rollouts`."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from trainer_hooks.callbacks.prime_rl.rewards import RewardAndTask
from trainer_hooks.callbacks.shared.sample_lists import pad

__all__ = ["read_sequences", "rollout_arguments", "token_metrics"]

logger = logging.getLogger("trainer_hooks")


def read_sequences(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the sequences of all ranks with a token in the loss; an unreadable line is logged and left out."""
    for file in sorted(folder.glob("rank_*.jsonl")):
        for line in file.read_bytes().splitlines():
            try:
                sequence = msgspec.json.decode(line)
                if any(sequence["loss_mask"]):
                    yield sequence
            except (msgspec.MsgspecError, KeyError, TypeError) as error:
                logger.warning("rlvitals: a line of %s was left out: %s", file, error)


def rollout_arguments(
    sequences: Sequence[Mapping[str, Any]], rewards: Sequence[RewardAndTask]
) -> dict[str, Any] | None:
    """Build the arguments for sequences and their rewards; return None where there are none."""
    if not sequences:
        return None
    groups = [group for _, group in rewards]
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return {
        "logprobs": _padded_column(sequences, "trainer_logprobs"),
        "mask": _padded_column(sequences, "loss_mask").astype(bool),
        "rewards": np.array([reward for reward, _ in rewards]),
        "sampler_logprobs": _padded_column(sequences, "inference_logprobs"),
        "entropies": _padded_column(sequences, "entropy"),
        "advantages": None if _lacks(sequences, "advantages") else _padded_column(sequences, "advantages"),
        "group_ids": None if None in groups else np.array([numbers[group] for group in groups]),
        "token_ids": _padded_column(sequences, "token_ids").astype(np.int64),
    }


def token_metrics(sequences: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Compute the signals that need no rewards."""
    if not sequences:
        return {}
    mask = _padded_column(sequences, "loss_mask").astype(bool)
    gap = _padded_column(sequences, "trainer_logprobs") - _padded_column(sequences, "inference_logprobs")
    return {
        "entropy/mean": float(_padded_column(sequences, "entropy")[mask].mean()),
        "mismatch/logprob_abs": float(np.abs(gap)[mask].mean()),
        "length/mean": float(mask.sum() / len(mask)),
    }


def _padded_column(sequences: Sequence[Mapping[str, Any]], name: str) -> Any:
    # prime-rl writes NaN and infinity as null.
    return pad([np.array(sequence[name], dtype=float) for sequence in sequences])


def _lacks(sequences: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(name not in sequence or None in sequence[name] for sequence in sequences)
