"""What a step says to the outside: token arrays for the SDK, numbers for a log file, a line for the terminal."""

import json
from collections.abc import Iterable
from pathlib import Path

import torch

from trainer_hooks import Rollouts
from trainer_hooks.reference.train import StepResult
from trainer_hooks.signals import summarise

__all__ = ["append_log", "line", "numbers", "rollouts"]


def rollouts(result: StepResult, *, clip: float) -> Rollouts:
    """Hand over a step's responses as the SDK takes them from any trainer."""
    batch = result.batch
    return Rollouts(
        batch.logprobs,
        batch.mask,
        batch.rewards,
        old_logprobs=batch.old_logprobs,
        entropies=batch.entropies,
        advantages=batch.advantages,
        group_ids=batch.group_ids,
        token_ids=batch.tokens,
        answer_mask=batch.answer_mask,
        tool_calls=_counts(episode.tool_calls for episode in batch.episodes),
        tool_calls_valid=_counts(episode.tool_calls_valid for episode in batch.episodes),
        truncated=batch.truncated,
        trained=True,
        clip_range=clip,
        control_ids=result.control_ids,
        first_feedback=_counts(episode.first_feedback for episode in batch.episodes),
    )


def numbers(result: StepResult, *, clip: float) -> dict[str, float]:
    """Give every signal of a step by its canonical name, as the collector would show it."""
    summaries = summarise(rollouts(result, clip=clip))
    values = {name: summary.value() for name, summary in summaries.items()}
    seen = {name: value for name, value in values.items() if value is not None}
    return {"grad/norm": result.grad_norm} | result.scalars | seen


def line(result: StepResult, phase: str) -> str:
    """Give a step as one line of the terminal."""
    batch = result.batch
    correct = batch.mask & (batch.rewards > 0)[:, None]
    likelihood = batch.old_logprobs[correct].mean()
    entropy = batch.entropies[batch.mask].mean()
    paired = result.scalars.get("entropy/paired_delta", float("nan"))
    return (
        f"step {result.step:>4}  reward {batch.rewards.mean():.3f}  ln p(correct) {likelihood:+.3f}  "
        f"entropy {entropy:.3f} ({paired:+.4f})  grad {result.grad_norm:.2f}  phase {phase}"
    )


def append_log(path: Path, result: StepResult, *, clip: float) -> None:
    """Append a step's numbers to a file, one JSON object a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": result.step} | numbers(result, clip=clip)) + "\n")


def _counts(values: Iterable[int]) -> torch.Tensor:
    return torch.tensor(list(values))
