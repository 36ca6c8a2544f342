"""Labels the responses of TRL's rollout batches with reward, group and tool calls.

Labels are columns of two tensors in the batch, so that TRL's own shuffling and splitting keep them aligned with the
responses. Nothing here draws a random number, communicates with another rank or changes a tensor.
"""

import logging
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trainer_hooks.callbacks.trl.known_code import is_known_code
from trainer_hooks.callbacks.trl.row_places import find_places, take_rows
from trainer_hooks.text_safety import describe_object

__all__ = ["LABELS", "ResponseLabels"]

logger = logging.getLogger("trainer_hooks")

LABELS = IDS, REWARDS = "rlvitals_ids", "rlvitals_rewards"
UID, GROUP, ZERO_STD, CLIPPED, CALLS, VALID, EMPTY = range(7)
REWARD, CORRECT = range(2)
GROUP_SHARES = ("reward/zero_std_frac", "reward/all_correct_frac", "reward/all_wrong_frac")
# The mean of equal rewards may differ from them by rounding, a relative 1e-7. GRPO divides this difference by 1e-4.
ROUNDING = 1e-3
# The openings of a tool call in the chat templates of Qwen, GLM and others, of Mistral, and of Llama.
CALL_OPENINGS = ("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=")
# The answers of a tool that found nothing, in the form that TRL makes of them with `str`.
EMPTY_ANSWERS = frozenset({"", "[]", "{}", "()", "set()", "None"})


class ResponseLabels:
    """Labels each response of a rollout batch, and reads the labels of those that come back in a microbatch.

    Args:
        trainer: A GRPOTrainer, an RLOOTrainer, or one like them.
        correct: Name of the reward function whose positive value means that a response is correct; the weighted sum
            of all unless given, and for a response that this function did not grade.
    """

    def __init__(self, trainer: Any, correct: str | None) -> None:
        self._groups: list[Tensor] = []  # of each rollout batch of the step: whether each group is of a kind
        self._trainer = trainer
        self._correct = None if correct is None else _find_function(trainer, correct)
        self._responses = 0
        self._columns: list[dict[str, Tensor]] = []
        self._tokens: list[Sequence[int]] = []  # of the responses that have labels, where TRL names them
        self._trained: set[int] = set()

    def begin_step(self) -> None:
        """Forget the groups of the last step."""
        self._groups.clear()

    def scalars(self) -> dict[str, float]:
        """Return the signals of whole groups, on all ranks, of every rollout batch of the step."""
        if not self._groups:
            return {}
        shares = torch.cat(self._groups, dim=1).float().mean(dim=1).tolist()
        return dict(zip(GROUP_SHARES, shares, strict=True))

    def begin_rollout(self) -> None:
        """Clear the labels of the last rollout batch."""
        self._columns, self._tokens = [], []

    def note_rewards(
        self, per_function: Tensor, completions: Sequence[Any], tokens: Sequence[Sequence[int]] = ()
    ) -> None:
        """Compute the labels of this rank's responses.

        Args:
            per_function: Rewards of all ranks, shape ``(ranks × B, functions)``; NaN where a function returned none.
            completions: This rank's B responses, as texts or as lists of messages.
            tokens: The token ids of each response; empty where TRL does not pass them.
        """
        trainer = self._trainer
        is_known = ~per_function.isnan()
        # Like TRL, leave out what is NaN only after weighting: an infinite reward of weight 0.
        weighted = (per_function * trainer.reward_weights.cpu()).nansum(dim=1)
        weighted = torch.where(is_known.any(dim=1), weighted, torch.nan)
        graded = weighted
        if self._correct is not None:
            # In a training of several tasks a function grades only the responses to its own.
            graded = torch.where(is_known[:, self._correct], per_function[:, self._correct], weighted)
        is_correct = graded > 0
        size = trainer.num_generations
        clip = getattr(trainer, "reward_clip_range", None)
        compared = weighted.clamp(*clip) if clip else weighted
        # RLOO trains on clipped rewards, and logs them as they were.
        is_clipped = ((compared != weighted) & ~weighted.isnan()).tolist()
        # Like TRL, leave out responses that no function scored; a group without any other has no deviation.
        lowest = compared.nan_to_num(nan=torch.inf).view(-1, size).amin(dim=1)
        is_equal = lowest == compared.nan_to_num(nan=-torch.inf).view(-1, size).amax(dim=1)
        scored, correct = (~weighted.isnan()).view(-1, size).sum(dim=1), is_correct.view(-1, size).sum(dim=1)
        # TRL's own share of such groups is that of the whole batch where advantages are scaled over the batch.
        self._groups.append(torch.stack([is_equal, is_equal & (correct == scored), is_equal & (correct == 0)]))
        has_zero_std = is_equal.tolist()
        uses_tools = bool(getattr(trainer, "tools", None) or getattr(trainer, "environments", None))
        first = trainer.accelerator.process_index * len(completions)
        ids = [
            (
                self._responses + place,
                self._responses + (first + place) // size,
                has_zero_std[(first + place) // size],
                is_clipped[first + place],
                *(_tool_calls(completion) if uses_tools else (-1, -1, -1)),
            )
            for place, completion in enumerate(completions)
        ]
        self._responses += len(weighted)
        own = slice(first, first + len(ids))
        columns = {
            REWARDS: torch.stack([weighted[own], is_correct[own].to(weighted.dtype)], dim=1),
            IDS: torch.tensor(ids, dtype=torch.int64),
        }
        self._columns.append(columns)
        self._tokens += tokens

    def attach(self, batch: MutableMapping[str, Any]) -> bool:
        """Add the labels to a rollout batch as columns of its length, which TRL would otherwise fail to shuffle.

        Returns:
            Whether the batch is made of the responses that were scored, in their order.
        """
        self._trained.clear()
        if not self._columns:
            self._note_logged_rewards(len(batch["completion_mask"]))
        if not self._columns:
            return True
        columns = {name: torch.cat([part[name] for part in self._columns]) for name in LABELS}
        is_in_order = len(columns[IDS]) == len(batch["completion_mask"])
        is_known = is_known_code(self._trainer._generate_and_score_completions)  # noqa: SLF001 - TRL's
        if len(self._tokens) == len(columns[IDS]) and not (is_in_order and is_known):
            # A subclass may have reordered, repeated or left out responses, or added others.
            processing = self._trainer.processing_class
            padding = getattr(processing, "tokenizer", processing).pad_token_id
            labels = list(zip(columns[REWARDS].tolist(), columns[IDS][:, GROUP].tolist(), strict=True))
            places = find_places(batch["completion_ids"].tolist(), self._tokens, labels, padding=padding)
            is_in_order = places == list(range(len(labels)))
            columns = {
                IDS: take_rows(columns[IDS], places, -1),
                REWARDS: take_rows(columns[REWARDS], places, torch.nan),
            }
        elif not is_in_order:
            return False
        batch.update(columns)
        return is_in_order

    @staticmethod
    def columns_of(inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the label columns of a microbatch."""
        return {name: inputs[name] for name in LABELS if name in inputs}

    @staticmethod
    def fresh_and_correct(inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Find the responses of a microbatch that have no influence on the update, and those that are correct.

        Equal rewards in a group are not enough: the advantages must also be 0 up to rounding, because RLOO subtracts
        β·KL from the rewards before it compares them, and other estimators standardise over the batch.

        Returns:
            Two boolean tensors of shape ``(B,)``; False where the labels are missing.
        """
        fresh = correct = torch.zeros(len(inputs["completion_mask"]), dtype=torch.bool)
        advantages = inputs.get("advantages")
        if IDS in inputs and advantages is not None:
            is_divided = "old_logps" not in inputs
            rounding = ROUNDING * is_divided * inputs[REWARDS][:, [REWARD]].abs().clamp(min=1)
            bound = torch.where(inputs[IDS][:, [ZERO_STD]] == 1, rounding, -1).to(advantages.device, non_blocking=True)
            fresh = (advantages.reshape(len(bound), -1).abs() <= bound).all(dim=1)
        if REWARDS in inputs:
            correct = inputs[REWARDS][:, CORRECT] > 0
        return fresh, correct

    def label(self, arrays: Mapping[str, Tensor]) -> dict[str, Any] | None:
        """Replace the label columns among the arrays of a step by arguments of `trainer_hooks.Rollouts`.

        Returns:
            The arguments, or None where no response has a label.
        """
        if not arrays.keys() >= {*LABELS}:
            return None
        # Lists are faster than arrays for a few numbers, because array code is not in the processor's caches here.
        ids, scores = arrays[IDS].tolist(), arrays[REWARDS].tolist()
        arrays = {name: array for name, array in arrays.items() if name not in LABELS}
        scored = [row for row, (reward, _) in enumerate(scores) if reward == reward]  # noqa: PLR0124 - NaN is not
        if len(scored) < len(scores):
            # No reward function scored the other responses. TRL also leaves them out of its statistics.
            rows = torch.tensor(scored, dtype=torch.int64)
            arrays = {name: array[rows.to(array.device, non_blocking=True)] for name, array in arrays.items()}
            ids, scores = [ids[row] for row in scored], [scores[row] for row in scored]
        if not ids:
            return None
        uids, groups, _, is_clipped, calls, valid, empty = zip(*ids, strict=True)
        uses_tools = calls[0] >= 0
        return arrays | {
            "rewards": [reward for reward, _ in scores],
            "correct": [graded > 0 for _, graded in scores],
            # By the rewards of a group its advantages are judged, and whether it has any.
            "group_ids": groups if self._holds_whole_groups(groups) and 1 not in is_clipped else None,
            "tool_calls": calls if uses_tools else None,
            "tool_calls_valid": valid if uses_tools else None,
            "tool_calls_empty": empty if uses_tools else None,
            "trained": self._note_trained(uids),
        }

    def _note_logged_rewards(self, responses: int) -> None:
        """Read the rewards of all ranks from TRL's log of completions, where no method returns them (to 0.18)."""
        kept = getattr(self._trainer, "_textual_logs", {}).get("rewards", {})
        everywhere = responses * self._trainer.accelerator.num_processes
        columns = [list(kept.get(name, ()))[-everywhere:] for name in self._trainer.reward_func_names]
        if all(len(column) == everywhere for column in columns):
            self.note_rewards(torch.tensor(columns, dtype=torch.float32).T, [None] * responses)

    def _holds_whole_groups(self, groups: Sequence[int]) -> bool:
        return set(Counter(groups).values()) == {self._trainer.num_generations}

    def _note_trained(self, uids: Sequence[int]) -> bool | None:
        """Return whether these responses were trained on before: all (True), none (False), or some (None)."""
        seen = {uid in self._trained for uid in uids}
        self._trained.update(uids)
        return seen.pop() if len(seen) == 1 else None


def _find_function(trainer: Any, name: str) -> int | None:
    """Return the place of a reward function by its name; None, with a line in the log, where there is none."""
    names = list(getattr(trainer, "reward_func_names", ()))
    if name in names:
        return names.index(name)
    logger.warning(
        "rlvitals: no reward function of this trainer is named %s, its functions are: %s; a response therefore counts "
        "as correct if its weighted reward is positive",
        describe_object(name),
        ", ".join(names) or "none",
    )
    return None


def _tool_calls(completion: Any) -> tuple[int, int, int]:
    """Return how many tool calls a response made, how many succeeded, and how many of these returned nothing."""
    if not isinstance(completion, list):
        return 0, 0, 0
    calls = sum(len(message.get("tool_calls") or ()) or _is_malformed_call(message) for message in completion)
    answers = [str(message.get("content")) for message in completion if message.get("role") == "tool"]
    # TRL answers a failed call with str({"error": ...}).
    valid = min(calls, sum(not answer.startswith("{'error':") for answer in answers))
    return calls, valid, min(valid, sum(answer.strip() in EMPTY_ANSWERS for answer in answers))


def _is_malformed_call(message: Mapping[str, Any]) -> bool:
    """Whether a message begins a call that TRL could not parse; TRL keeps it as text, outside its statistics."""
    content = str(message.get("content"))
    return message.get("role") == "assistant" and any(opening in content for opening in CALL_OPENINGS)
