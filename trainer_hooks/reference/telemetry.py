"""What a step says to the outside: token arrays for the SDK, numbers for a log file, a line for the terminal."""

import json
from pathlib import Path

import torch
from torch import Tensor

import trainer_hooks
from trainer_hooks.losses.tokens import action_index
from trainer_hooks.reference.train import StepResult

__all__ = ["append_log", "line", "numbers", "rollouts"]


def rollouts(result: StepResult) -> "trainer_hooks.Rollouts":
    """Hand over a step's responses as the SDK takes them from any trainer."""
    batch = result.batch
    return trainer_hooks.Rollouts(
        batch.logprobs.numpy(),
        batch.mask.numpy(),
        batch.rewards.numpy(),
        old_logprobs=batch.old_logprobs.numpy(),
        entropies=batch.entropies.numpy(),
        advantages=batch.advantages.numpy(),
        group_ids=batch.group_ids.numpy(),
        token_ids=batch.tokens.numpy(),
        answer_mask=batch.answer_mask.numpy(),
        correct=(batch.rewards > 0).numpy(),
        tool_calls=torch.tensor([episode.actions for episode in batch.episodes]).numpy(),
        tool_calls_valid=torch.tensor([episode.valid_actions for episode in batch.episodes]).numpy(),
    )


def numbers(result: StepResult) -> dict[str, float]:
    """Sum a step up by canonical names, for people and files; the SDK makes its own, fuller, from the arrays."""
    batch = result.batch
    mask, correct = batch.mask, batch.rewards > 0
    log_ratio = (batch.logprobs - batch.old_logprobs)[mask]
    groups = batch.rewards.view(int(batch.group_ids.max()) + 1, -1)
    alike = groups.amax(dim=1) == groups.amin(dim=1)
    found = {
        "reward/mean": batch.rewards.mean(),
        "reward/zero_std_frac": alike.float().mean(),
        "reward/all_wrong_frac": (alike & (groups.amax(dim=1) == 0)).float().mean(),
        "likelihood/correct": _mean(batch.old_logprobs, mask & correct[:, None]),
        "likelihood/incorrect": _mean(batch.old_logprobs, mask & ~correct[:, None]),
        "entropy/mean": _mean(batch.entropies, mask),
        "ratio/max": log_ratio.max().exp(),
        "ratio/p999": log_ratio.quantile(0.999).exp(),
        "ratio/log_var": log_ratio.var(correction=0),
        "length/mean": mask.sum(dim=1).float().mean(),
        "tools/calls": torch.tensor([float(len(episode.searches)) for episode in batch.episodes]).mean(),
        "tools/invalid": torch.tensor([float(episode.invalid_actions) for episode in batch.episodes]).mean(),
    }
    actions = action_index(mask)
    for action in (0, 1):
        where = (actions == action) & correct[:, None]
        found[f"likelihood/action{action}"] = _mean(batch.old_logprobs, where)
    values = {name: value.item() for name, value in found.items()}
    return {"grad/norm": result.grad_norm} | values | result.scalars


def line(result: StepResult, phase: str) -> str:
    """Give a step as one line of the terminal."""
    seen = numbers(result)
    return (
        f"step {result.step:>4}  reward {seen['reward/mean']:.3f}  ln p correct {seen['likelihood/correct']:+.3f}  "
        f"entropy {seen['entropy/mean']:.3f} ({seen.get('entropy/paired_delta', float('nan')):+.4f})  "
        f"grad {seen['grad/norm']:.2f}  length {seen['length/mean']:.0f}  phase {phase}"
    )


def append_log(path: Path, result: StepResult) -> None:
    """Append a step's numbers to a file, one JSON object a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": result.step} | numbers(result)) + "\n")


def _mean(values: Tensor, where: Tensor) -> Tensor:
    """Mean over True; NaN where nothing is, because that was not observed."""
    return values[where].mean()
