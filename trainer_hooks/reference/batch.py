"""From rollouts to what an update needs: advantages, old log-probabilities, and a partition into minibatches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - torch's own idiom

from trainer_hooks.losses import group_advantages, nthr_scales
from trainer_hooks.reference.model import token_statistics
from trainer_hooks.reference.protocols import Episode, Policy, Rollout

__all__ = ["TrainingBatch", "answer_tokens", "prepare"]


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """A rollout batch ready to be trained on; B responses, T tokens.

    ``logprobs`` is written by the training passes: the log-probabilities that the newest pass saw, each under the
    weights just before its own minibatch's update. ``token_scales`` are NTHR's factors, where asked for.
    """

    tokens: Tensor
    mask: Tensor
    answer_mask: Tensor
    rewards: Tensor
    advantages: Tensor
    group_ids: Tensor
    old_logprobs: Tensor
    entropies: Tensor
    logprobs: Tensor
    token_scales: Tensor | None
    episodes: Sequence[Episode]
    truncated: Tensor
    minibatches: list[Tensor]

    def shuffled(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Give the rows of each minibatch, in a fresh order; their composition stays, and so do their shapes."""
        for index in torch.randperm(len(self.minibatches), generator=generator).tolist():
            yield self.minibatches[index]


@torch.no_grad()
def prepare(
    model: Policy,
    rollout: Rollout,
    *,
    group_size: int,
    minibatches: int,
    generator: torch.Generator,
    nthr: bool = False,
) -> TrainingBatch:
    """Score a rollout under the policy that sampled it and cut it into minibatches of whole groups.

    Old log-probabilities come from the training forward on the very rows and shapes that training will use, not from
    the sampler: at θ = θ_old the ratio is then 1 to the last bit.
    """
    groups = len(rollout.episodes) // group_size
    group_ids = torch.arange(groups).repeat_interleave(group_size)
    parts = torch.randperm(groups, generator=generator).chunk(minibatches)
    rows = [torch.cat([(group_ids == group).nonzero()[:, 0] for group in part.tolist()]) for part in parts]
    old_logprobs, entropies = torch.zeros(rollout.mask.shape), torch.zeros(rollout.mask.shape)
    for part in rows:
        old_logprobs[part], entropies[part] = token_statistics(model, rollout.tokens[part], rollout.mask[part])
    return TrainingBatch(
        tokens=rollout.tokens,
        mask=rollout.mask,
        answer_mask=answer_tokens(rollout),
        rewards=rollout.rewards,
        advantages=group_advantages(rollout.rewards, group_ids),
        group_ids=group_ids,
        old_logprobs=old_logprobs,
        entropies=entropies,
        logprobs=old_logprobs.clone(),
        token_scales=_token_scales(model, rollout, group_ids) if nthr else None,
        episodes=rollout.episodes,
        truncated=rollout.truncated,
        minibatches=rows,
    )


def _token_scales(model: Policy, rollout: Rollout, group_ids: Tensor) -> Tensor:
    """Give NTHR's factors, group by group: a group's logits at a time is all the memory that it takes."""
    scales = torch.ones(rollout.mask.shape)
    for group in range(int(group_ids.max()) + 1):
        rows = group_ids == group
        tokens = rollout.tokens[rows]
        before = F.pad(model.hidden(tokens)[:, :-1], (0, 0, 1, 0))
        logits = model.logits(before)
        scales[rows] = nthr_scales(before, logits, tokens, rollout.mask[rows], rollout.rewards[rows] > 0)
    return scales


def answer_tokens(rollout: Rollout) -> Tensor:
    """Mark the tokens from ``<answer>`` to the end of its action, shape ``(B, T)``, bool."""
    marked = torch.zeros_like(rollout.mask)
    marked[rollout.mask] = torch.tensor([inside for episode in rollout.episodes for inside in episode.answer_mask])
    return marked
