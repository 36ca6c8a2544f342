"""Names the responses of TRL's rollout batches: reward, group and tool calls, through its own shuffling and splitting.

They ride with the batch as columns of two tensors. Nothing here draws a random number, talks to another rank or changes
a tensor.
"""

from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["LABELS", "ResponseLabels"]

LABELS = IDS, REWARDS = "rlvitals_ids", "rlvitals_rewards"
UID, GROUP, DEAD, CALLS, VALID = range(5)
REWARD, CORRECT = range(2)
# The mean of equal rewards may miss them by a rounding, 1e-7 of them, which GRPO divides by a deviation of 1e-4.
ROUNDING = 1e-3
# As the chat templates of Qwen, GLM and others, of Mistral, and of Llama have them.
CALL_OPENINGS = ("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=")


class ResponseLabels:
    """Labels each response of a rollout batch, and reads the labels of those that come back in a microbatch.

    Args:
        trainer: A GRPOTrainer, an RLOOTrainer, or one like them.
        correct: Name of the reward function whose positive value says that a response is correct; the weighted sum
            of all unless given.

    Attributes:
        scalars: What was seen of whole groups, on all ranks, since somebody emptied it.
    """

    def __init__(self, trainer: Any, correct: str | None) -> None:
        self.scalars: dict[str, float] = {}
        self._trainer = trainer
        self._correct = correct
        self._responses = 0
        self._columns: dict[str, Tensor] = {}
        self._trained: set[int] = set()

    def expect(self) -> None:
        """A rollout batch begins: forget the rewards of the last."""
        self._columns = {}

    def note(self, per_function: Tensor, completions: Sequence[Any]) -> None:
        """Take the rewards of all ranks, shape ``(ranks × B, functions)``, NaN where a function had no opinion."""
        trainer = self._trainer
        is_known = ~per_function.isnan()
        weighted = (torch.where(is_known, per_function, 0.0) * trainer.reward_weights.cpu()).sum(dim=1)
        weighted = torch.where(is_known.any(dim=1), weighted, torch.nan)
        verdict = weighted if self._correct is None else per_function[:, trainer.reward_func_names.index(self._correct)]
        is_right = verdict > 0
        size = trainer.num_generations
        groups = weighted.view(-1, size)
        dead = (groups.amax(dim=1) == groups.amin(dim=1)).tolist()
        rights = is_right.view(-1, size).sum(dim=1).tolist()
        dead_rights = [right for is_dead, right in zip(dead, rights, strict=True) if is_dead]
        self.scalars = {
            "reward/all_correct_frac": dead_rights.count(size) / len(dead),
            "reward/all_wrong_frac": dead_rights.count(0) / len(dead),
        }
        uses_tools = bool(getattr(trainer, "tools", None) or getattr(trainer, "environments", None))
        first = trainer.accelerator.process_index * len(completions)
        ids = [
            (
                self._responses + place,
                self._responses + (first + place) // size,
                dead[(first + place) // size],
                *(_tool_calls(completion) if uses_tools else (-1, -1)),
            )
            for place, completion in enumerate(completions)
        ]
        self._responses += len(weighted)
        own = slice(first, first + len(ids))
        self._columns = {
            REWARDS: torch.stack([weighted[own], is_right[own].to(weighted.dtype)], dim=1),
            IDS: torch.tensor(ids, dtype=torch.int64),
        }

    def attach(self, batch: MutableMapping[str, Any]) -> None:
        """Let each response of the rollout batch carry its labels."""
        self._trained.clear()
        if not self._columns:
            self._note_printed(len(batch["completion_mask"]))
        batch.update(self._columns)

    @staticmethod
    def carried(inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        """Give the columns that a microbatch carries."""
        return {name: inputs[name] for name in LABELS if name in inputs}

    @staticmethod
    def fresh_and_correct(inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Say which responses of a microbatch no update is about, and which are correct; none where nobody knows.

        Equal rewards are not enough: RLOO compares them less β·KL, undivided, and others standardise over the batch.
        """
        fresh = correct = torch.zeros(len(inputs["completion_mask"]), dtype=torch.bool)
        advantages = inputs.get("advantages")
        if IDS in inputs and advantages is not None:
            is_divided = "old_logps" not in inputs
            rounding = ROUNDING * is_divided * inputs[REWARDS][:, [REWARD]].abs().clamp(min=1)
            bound = torch.where(inputs[IDS][:, [DEAD]] == 1, rounding, -1).to(advantages.device, non_blocking=True)
            fresh = (advantages.reshape(len(bound), -1).abs() <= bound).all(dim=1)
        if REWARDS in inputs:
            correct = inputs[REWARDS][:, CORRECT] > 0
        return fresh, correct

    def read(self, arrays: Mapping[str, Tensor]) -> dict[str, Any] | None:
        """Give the arrays of a step with what the labels among them say, as arguments of `trainer_hooks.Rollouts`.

        None where no response has a label.
        """
        if not arrays.keys() >= {*LABELS}:
            return None
        # Lists: a few numbers are read faster so than as arrays, whose code is not in the processor's caches here.
        ids, scores = arrays[IDS].tolist(), arrays[REWARDS].tolist()
        arrays = {name: array for name, array in arrays.items() if name not in LABELS}
        scored = [row for row, (reward, _) in enumerate(scores) if reward == reward]  # noqa: PLR0124 - NaN is not
        if len(scored) < len(scores):
            # No reward function had anything to say about the others: TRL leaves them out of its statistics, too.
            rows = torch.tensor(scored, dtype=torch.int64)
            arrays = {name: array[rows.to(array.device, non_blocking=True)] for name, array in arrays.items()}
            ids, scores = [ids[row] for row in scored], [scores[row] for row in scored]
        if not ids:
            return None
        uids, groups, _, calls, valid = zip(*ids, strict=True)
        uses_tools = calls[0] >= 0
        return arrays | {
            "rewards": [reward for reward, _ in scores],
            "correct": [verdict > 0 for _, verdict in scores],
            "group_ids": groups if self._holds_whole_groups(groups) else None,
            "tool_calls": calls if uses_tools else None,
            "tool_calls_valid": valid if uses_tools else None,
            "trained": self._note_trained(uids),
        }

    def _note_printed(self, responses: int) -> None:
        """Take the rewards of all ranks from what TRL keeps to print, where no method gives them (to 0.18)."""
        kept = getattr(self._trainer, "_textual_logs", {}).get("rewards", {})
        everywhere = responses * self._trainer.accelerator.num_processes
        columns = [list(kept.get(name, ()))[-everywhere:] for name in self._trainer.reward_func_names]
        if all(len(column) == everywhere for column in columns):
            self.note(torch.tensor(columns, dtype=torch.float32).T, [None] * responses)

    def _holds_whole_groups(self, groups: Sequence[int]) -> bool:
        return set(Counter(groups).values()) == {self._trainer.num_generations}

    def _note_trained(self, uids: Sequence[int]) -> bool | None:
        """Say whether these responses were trained on before: all (True), none (False), or some (None)."""
        seen = {uid in self._trained for uid in uids}
        self._trained.update(uids)
        return seen.pop() if len(seen) == 1 else None


def _tool_calls(completion: Any) -> tuple[int, int]:
    """Count the calls that a response made, and those that were answered without an error."""
    if not isinstance(completion, list):
        return 0, 0
    calls = sum(len(message.get("tool_calls") or ()) or _is_malformed_call(message) for message in completion)
    answers = [str(message.get("content")) for message in completion if message.get("role") == "tool"]
    # TRL answers a failed call with str({"error": ...}).
    valid = sum(not answer.startswith("{'error':") for answer in answers)
    return calls, min(calls, valid)


def _is_malformed_call(message: Mapping[str, Any]) -> bool:
    """Say whether a call was begun that TRL could not read: it leaves that in the text, and out of its statistics."""
    said = str(message.get("content"))
    return message.get("role") == "assistant" and any(opening in said for opening in CALL_OPENINGS)
