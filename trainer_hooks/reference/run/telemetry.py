"""The output of a step: token arrays for the SDK, signals for a log file, a line for the terminal."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer_hooks import Rollouts
from trainer_hooks.errors import RolloutsError
from trainer_hooks.reference.distributed import SINGLE_PROCESS, Ranks
from trainer_hooks.reference.run.trainer import StepResult
from trainer_hooks.signals import FamiliarTokens, fetch, finish_summaries, summarise
from trainer_hooks.signals.families import instrument
from trainer_hooks.wire import Moments, Summary, merge_summaries

__all__ = ["append_log", "line", "numbers", "rollouts", "step_warnings"]


def rollouts(
    result: StepResult, *, clip: float | tuple[float, float] | None, vocabulary: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return a step's responses as the arguments of `Rollouts`.

    The SDK reads them in the background; each step computes new ones, so they need no copy.
    """
    batch = result.batch
    sampler = batch.sampler_logprobs
    is_old_policy = sampler is not None and torch.equal(sampler, batch.old_logprobs)
    # The policy's own log-probabilities at these weights are not kept then, and a gap of 0 would be false.
    shown = None if sampler is None or is_old_policy else _unless_certain(sampler, batch.mask)
    return {
        "logprobs": batch.logprobs,
        "mask": batch.mask,
        "rewards": batch.rewards,
        "old_logprobs": _unless_certain(batch.old_logprobs, batch.mask) if is_old_policy else batch.old_logprobs,
        "sampler_logprobs": shown,
        "entropies": batch.entropies,
        "advantages": batch.advantages,
        "group_ids": batch.group_ids,
        "token_ids": batch.tokens,
        "answer_mask": batch.answer_mask,
        "tool_calls": _counts(episode.tool_calls for episode in batch.episodes),
        "tool_calls_valid": _counts(episode.tool_calls_valid for episode in batch.episodes),
        "tool_calls_empty": _counts(episode.tool_calls_empty for episode in batch.episodes),
        "truncated": batch.truncated,
        "trained": True,
        "clip_range": clip,
        "control_ids": result.control_ids or None,
        "first_feedback": _counts(episode.first_feedback for episode in batch.episodes),
        "vocabulary": vocabulary,
        "copy": False,
    }


def numbers(
    result: StepResult,
    *,
    clip: float | tuple[float, float] | None,
    ranks: Ranks = SINGLE_PROCESS,
    familiar: FamiliarTokens | None = None,
) -> dict[str, float]:
    """Compute every signal of a step by its canonical name over all ranks, with the values that the collector shows.

    Token arrays that contradict each other, as those of a policy that one update made certain of every token, give no
    signal and are counted, as in the SDK.
    """
    found: dict[str, Summary]
    try:
        found = summarise(Rollouts(**rollouts(result, clip=clip)), familiar=familiar)
    except RolloutsError:
        found = {"hooks/rejected_rollouts": Moments(count=1, sum=1.0, statistic="sum")}
    for scores in result.recomputed:
        gaps = instrument.compute(scores)
        parts = fetch(scores.library, [*gaps.values()])
        found |= finish_summaries(zip(gaps, parts, strict=True))
    shards: list[dict[str, Summary]] = ranks.gather(found)
    summaries = merge_summaries(item for shard in shards for item in shard.items())
    values = {name: summary.value() for name, summary in summaries.items()}
    seen = {name: value for name, value in values.items() if value is not None}
    return {"grad/norm": result.grad_norm} | result.scalars | seen


def line(result: StepResult, phase: str, ranks: Ranks = SINGLE_PROCESS) -> str:
    """Format a step as one line for the terminal, over all ranks."""
    batch = result.batch
    correct = batch.mask & (batch.rewards > 0)[:, None]
    every = torch.ones_like(batch.rewards, dtype=torch.bool)
    reward, likelihood, entropy = (
        _mean(values[chosen], ranks)
        for values, chosen in ((batch.rewards, every), (batch.old_logprobs, correct), (batch.entropies, batch.mask))
    )
    paired = result.scalars.get("entropy/paired_delta", float("nan"))
    return (
        f"step {result.step:>4}  reward {reward:.3f}  ln p(correct) {likelihood:+.3f}  "
        f"entropy {entropy:.3f} ({paired:+.4f})  grad {result.grad_norm:.2f}  phase {phase}"
    )


def step_warnings(result: StepResult, ranks: Ranks = SINGLE_PROCESS) -> dict[str, str]:
    """Return warnings about a step by kind, because a zero or a gap in a curve alone is easily overlooked."""
    batch = result.batch
    counts = ranks.sum(
        torch.stack(
            (
                (batch.advantages != 0).any(),
                (batch.rewards > 0).sum(),
                (~batch.mask.any(dim=1)).sum(),
                torch.tensor(len(batch.rewards), device=batch.mask.device),
            )
        )
    )
    has_advantage, correct, empty, responses = counts.tolist()
    found = {}
    if result.skipped[0]:
        found["skipped"] = "{} of {} updates left out: the gradient is not finite".format(*result.skipped)
    if not has_advantage:
        found["equal"] = (
            "all rewards are equal within their groups: every advantage is 0, and the policy has no gradient but that "
            "of a penalty"
        )
    if not correct:
        found["wrong"] = f"none of {responses} responses is correct: their likelihood is not observed"
    if empty:
        found["empty"] = f"{empty} of {responses} responses have no action token: raise --context"
    return found


def append_log(path: Path, step: int, values: Mapping[str, float]) -> None:
    """Append a step's numbers to a file, one JSON object a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": step} | dict(values)) + "\n")


def _mean(values: Tensor, ranks: Ranks) -> float:
    """Compute the mean over all ranks; NaN where there is no value."""
    total, count = ranks.sum(torch.tensor((values.sum().item(), values.numel()), dtype=torch.float64)).tolist()
    return total / count if count else float("nan")


def _unless_certain(logprobs: Tensor, mask: Tensor) -> Tensor | None:
    """Return log-probabilities of a truncated sampler, or None where it had no choice at any token.

    They are then 0 everywhere, which the SDK takes for values that were filled in: it would leave out the whole step.
    """
    return logprobs if (mask & (logprobs != 0)).any() else None


def _counts(values: Iterable[int]) -> torch.Tensor:
    return torch.tensor(list(values))
