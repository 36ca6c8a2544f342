"""Finds the rewards of prime-rl's exported sequences in the traces that its orchestrator writes beside them.

An exported sequence and a branch of a trace are the same where their token ids are. Newer exports hold the reward
themselves, and then nothing is looked for.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

__all__ = ["RewardIndex"]

# Where the traces of a step are, depending on prime-rl's version.
PATTERNS = ("rollouts/step_{}/train/**/traces.jsonl", "traces/step_{}/train/**/traces.jsonl")
# A rollout is trained on at the step in which it arrived, or some steps later.
LAG_STEPS = 32

Found = tuple[float, str | None]


class RewardIndex:
    """Rewards and tasks of the responses that a step may train on, by their token ids.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps: dict[int, _Traces] = {}
        self._read_up_to = -1

    def read(self, *, up_to: int) -> None:
        """Read what was written since the last call up to this step, and forget the steps long before it."""
        if up_to <= self._read_up_to:
            self._steps.clear()  # the run has gone back, and writes its traces anew
        self._read_up_to = up_to
        near = range(max(0, up_to - LAG_STEPS), up_to + 1)
        self._steps = {step: self._steps.get(step) or _Traces() for step in near}
        for step, traces in self._steps.items():
            for pattern in PATTERNS:
                for file in self._folder.glob(pattern.format(step)):
                    traces.read(file)

    def of(self, sequence: Mapping[str, Any]) -> Found | None:
        """Give the reward of an exported sequence, and its task where that is known; None without a reward."""
        own = sequence.get("rewards")
        if own:
            values = [value for value, is_action in zip(own, sequence["loss_mask"], strict=True) if is_action]
            if None not in values:
                found = self._find(sequence["token_ids"])
                return float(np.mean(values)), found[1] if found else None
        return self._find(sequence["token_ids"])

    def _find(self, token_ids: Sequence[int]) -> Found | None:
        key = _key(token_ids)
        newest_first = reversed(self._steps.values())
        return next((traces.rewards[key] for traces in newest_first if key in traces.rewards), None)


class _Traces:
    """What the traces of one step hold; their files grow while the run goes on."""

    def __init__(self) -> None:
        self.rewards: dict[bytes, Found] = {}
        self._read_bytes: dict[Path, int] = {}

    def read(self, file: Path) -> None:
        """Read what was written since the last call."""
        with file.open("rb") as opened:
            opened.seek(self._read_bytes.get(file, 0))
            written = opened.read()
        # The last line may still be on its way.
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
    """Give the traces of an episode, or the one that the line is."""
    try:
        record = msgspec.json.decode(line)
    except msgspec.MsgspecError:
        return
    if isinstance(record, dict):
        for trace in record.get("traces", [record]):
            if isinstance(trace, dict) and isinstance(trace.get("nodes"), list) and "rewards" in trace:
                yield trace


def _reward(rewards: Any) -> float | None:  # what a trace holds there depends on its version
    """Give Σ score · weight, or None where nothing was scored."""
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
    """Give the token ids of each path from a root to a leaf: nodes hold what they add."""
    parents = {node.get("parent") for node in nodes}
    for place in range(len(nodes)):
        if place in parents:
            continue
        path: list[Mapping[str, Any]] = []
        at: int | None = place
        while at is not None:
            path.append(nodes[at])
            at = nodes[at].get("parent")
        yield [token for node in reversed(path) for token in node.get("token_ids") or ()]


def _task(trace: Mapping[str, Any]) -> str | None:
    task = trace.get("task")
    if not isinstance(task, dict):
        return None
    return str(task.get("hash") or task.get("key") or json.dumps(task.get("data"), sort_keys=True))


def _key(token_ids: Sequence[int]) -> bytes:
    return hashlib.blake2b(np.asarray(token_ids, dtype=np.int64).tobytes(), digest_size=16).digest()
