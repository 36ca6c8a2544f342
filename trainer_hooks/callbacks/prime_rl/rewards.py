"""Finds the rewards of prime-rl's exported sequences in the traces that its orchestrator writes beside them.

A sequence and a branch of a trace match where their token ids are equal. Newer exports hold the reward themselves, and
then only the task is looked up.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

__all__ = ["RewardIndex"]

# The files of a step's traces; the folder depends on prime-rl's version.
PATTERNS = ("rollouts/step_{}/train/**/traces.jsonl", "traces/step_{}/train/**/traces.jsonl")
# A rollout is trained on at the step in which it arrived, or some steps later.
LAG_STEPS = 32

RewardAndTask = tuple[float, str | None]


class RewardIndex:
    """Rewards and tasks of the responses that a step may be trained on, by token ids.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps: dict[int, _Traces] = {}
        self._read_up_to = -1

    def read(self, *, up_to: int) -> None:
        """Read what was written since the last call up to this step, and drop steps more than `LAG_STEPS` older."""
        if up_to <= self._read_up_to:
            self._steps.clear()  # the run went back to a checkpoint, and writes its traces again
        self._read_up_to = up_to
        near = range(max(0, up_to - LAG_STEPS), up_to + 1)
        self._steps = {step: self._steps.get(step) or _Traces() for step in near}
        for step, traces in self._steps.items():
            for pattern in PATTERNS:
                for file in self._folder.glob(pattern.format(step)):
                    traces.read(file)

    def find(self, sequence: Mapping[str, Any]) -> RewardAndTask | None:
        """Return the reward of an exported sequence, and its task where that is known; None without a reward."""
        own = sequence.get("rewards")
        if own:
            values = [value for value, is_action in zip(own, sequence["loss_mask"], strict=True) if is_action]
            if None not in values:
                found = self._look_up(sequence["token_ids"])
                return float(np.mean(values)), found[1] if found else None
        return self._look_up(sequence["token_ids"])

    def _look_up(self, token_ids: Sequence[int]) -> RewardAndTask | None:
        key = _key(token_ids)
        newest_first = reversed(self._steps.values())
        return next((traces.rewards[key] for traces in newest_first if key in traces.rewards), None)


class _Traces:
    """The rewards in the traces of one step, whose files grow while the run continues."""

    def __init__(self) -> None:
        self.rewards: dict[bytes, RewardAndTask] = {}
        self._read_bytes: dict[Path, int] = {}

    def read(self, file: Path) -> None:
        """Read what was written since the last call."""
        with file.open("rb") as opened:
            opened.seek(self._read_bytes.get(file, 0))
            written = opened.read()
        # The last line may be incomplete.
        complete = written[: written.rfind(b"\n") + 1]
        self._read_bytes[file] = self._read_bytes.get(file, 0) + len(complete)
        for line in complete.splitlines():
            for trace in _traces(line):
                reward = _reward(trace["rewards"])
                if reward is None:
                    continue
                for ids in _branches(trace["nodes"]):
                    self.rewards[_key(ids)] = (reward, _task(trace))


def _traces(line: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the traces of a line, which is an episode of several traces, or one trace."""
    try:
        record = msgspec.json.decode(line)
    except msgspec.MsgspecError:
        return
    if isinstance(record, dict):
        for trace in record.get("traces", [record]):
            if isinstance(trace, dict) and isinstance(trace.get("nodes"), list) and "rewards" in trace:
                yield trace


def _reward(rewards: Any) -> float | None:  # its form depends on the version
    """Compute Σ score · weight; None where nothing was scored."""
    if isinstance(rewards, int | float):
        return float(rewards)
    if not isinstance(rewards, dict):
        return None
    values = [
        one["score"] * one.get("weight", 1.0) if isinstance(one, dict) else one
        for one in rewards.values()
        if one is not None
    ]
    return float(sum(values)) if values else None


def _branches(nodes: Sequence[Mapping[str, Any]]) -> Iterator[list[int]]:
    """Yield the token ids of each path from a root to a leaf; a node holds the tokens that it adds."""
    parents = {node.get("parent") for node in nodes}
    for place in range(len(nodes)):
        if place in parents:
            continue
        path: list[Mapping[str, Any]] = []
        at: int | None = place
        while at is not None:
            path.append(nodes[at])
            parent = nodes[at].get("parent")
            # A parent stands before its child; a damaged trace could lead round in a circle.
            at = parent if parent is not None and 0 <= parent < at else None
        yield [token for node in reversed(path) for token in node.get("token_ids") or ()]


def _task(trace: Mapping[str, Any]) -> str | None:
    task = trace.get("task")
    if not isinstance(task, dict):
        return None
    return str(task.get("hash") or task.get("key") or json.dumps(task.get("data"), sort_keys=True))


def _key(token_ids: Sequence[int]) -> bytes:
    return hashlib.blake2b(np.asarray(token_ids, dtype=np.int64).tobytes(), digest_size=16).digest()
