"""Turns rollouts into a training batch: advantages, old log-probabilities, and a partition into minibatches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - torch's own idiom

from trainer_hooks.losses import adaptive_answer_weight, group_advantages, nthr_scales, stare_scales
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.distributed import SINGLE_PROCESS, Ranks
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Episode, Policy, Rollout
from trainer_hooks.reference.updates.critic import Critic, credit

__all__ = ["Minibatch", "TrainingBatch", "Values", "answer_tokens", "prepare", "select"]


@dataclass(frozen=True, slots=True)
class Minibatch:
    """The responses of one update.

    Attributes:
        rows: Their rows in the batch, on this rank.
        tokens: N of eq. 1, scalar: action tokens of the minibatch on all ranks, over the number of ranks, because
            gradients are averaged over ranks.
        preserved: N of eq. 4 to 6, over the number of ranks likewise: action tokens of responses with A ≥ 0.
    """

    rows: Tensor
    tokens: Tensor
    preserved: Tensor


@dataclass(frozen=True, slots=True)
class Values:
    """The values of PPO's critic: V before each token, and the returns to learn, each ``(B, T)``."""

    old: Tensor
    returns: Tensor


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """This rank's share of a rollout batch, ready to be trained on; B responses, T tokens.

    The training passes write ``logprobs``: the log-probabilities of the newest pass, each under the weights just before
    the update of its minibatch. ``advantages`` has one value for each response, ``(B,)``, or with a critic one for each
    token, ``(B, T)``. ``token_scales`` are the factors of NTHR or STARE, if the method has them; ``metrics`` are
    further signals. ``sampler_logprobs`` are the log-probabilities under the sampling distribution, if that is not the
    policy. ``answer_weight`` is the factor on the penalty of answer tokens under LLDS-MA.
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
    values: Values | None
    episodes: Sequence[Episode]
    truncated: Tensor
    minibatches: list[Minibatch]
    metrics: dict[str, float]
    answer_weight: float = 0.0
    sampler_logprobs: Tensor | None = None

    @property
    def response_advantages(self) -> Tensor:
        """One advantage a response, ``(B,)``: its own, or the sum of its tokens'."""
        return self.advantages if self.advantages.ndim == 1 else self.advantages.sum(dim=1)

    def shuffle(self, generator: torch.Generator) -> Iterator[Minibatch]:
        """Yield the minibatches in a fresh order; their composition and shapes stay the same."""
        order = torch.randperm(len(self.minibatches), generator=generator, device=generator.device)
        for index in order.tolist():
            yield self.minibatches[index]

    def minibatch(self, rows: Tensor, ranks: Ranks = SINGLE_PROCESS) -> Minibatch:
        """Make a minibatch of some of the batch's responses, with those of the other ranks where there are any."""
        lengths = self.mask[rows].sum(dim=1)
        kept = lengths[self.response_advantages[rows] >= 0]
        tokens, preserved = ranks.sum(torch.stack((lengths.sum(), kept.sum()))).clamp(min=1)
        return Minibatch(rows, tokens / ranks.size, preserved / ranks.size)


@torch.no_grad()
def prepare(
    policy: Policy,
    rollout: Rollout,
    config: Config,
    *,
    generator: torch.Generator,
    critic: Critic | None = None,
    ranks: Ranks = SINGLE_PROCESS,
) -> TrainingBatch:
    """Select this rank's groups of a rollout, score them under the policy that sampled them, and form minibatches.

    Every minibatch consists of whole groups, the same number on each rank; with ``split_groups``, of responses. Old
    log-probabilities come from the training's forward pass on the same rows and shapes that training uses, so that at
    θ = θ_old the ratio is exactly 1. With ``old_logprobs="sampler"`` they are those of the sampling distribution, if
    that is not the policy.
    """
    if config.split_groups:
        share, group_ids, rows = _split(rollout, config, generator)
    else:
        share, group_ids, rows = _whole(rollout, config, generator, ranks)
    device = next(policy.parameters()).device
    tokens, mask, rewards = (tensor.to(device) for tensor in (share.tokens, share.mask, share.rewards))
    scores = torch.zeros(2, *mask.shape, device=device)
    for part in rows:
        scores[:, part] = torch.stack(token_statistics(policy, tokens[part], mask[part]))
    advantages = group_advantages(rewards, group_ids.to(device), unbiased=config.unbiased_std)
    values, metrics = None, dict[str, float]()
    if critic is not None:
        expected = torch.zeros(mask.shape, device=device)
        for part in rows:
            expected[part] = critic(tokens[part], mask[part])
        advantages, returns, metrics = credit(rewards, expected, mask, config=config, ranks=ranks)
        values = Values(expected, returns)
    scales = None
    if config.optimises.scales_tokens:
        scales = _token_scales(policy, tokens, mask, rewards, group_ids)
    if config.optimises.scales_surprise:
        mean_entropy = (scores[1].sum() / mask.sum().clamp(min=1)).item()
        scales = stare_scales(scores[0], mask, advantages, mean_entropy, target=config.target_entropy)
    sampler = None if share.sampler_logprobs is None else share.sampler_logprobs.to(device)
    batch = TrainingBatch(
        tokens=tokens,
        mask=mask,
        answer_mask=answer_tokens(share).to(device),
        rewards=rewards,
        advantages=advantages,
        group_ids=group_ids.to(device),
        old_logprobs=scores[0] if sampler is None or config.old_logprobs == "recomputed" else sampler.clone(),
        entropies=scores[1],
        logprobs=scores[0].clone(),
        token_scales=scales,
        values=values,
        episodes=share.episodes,
        truncated=share.truncated,
        minibatches=[],
        metrics=metrics,
        answer_weight=_answer_weight(share, config, ranks),
        sampler_logprobs=sampler,
    )
    batch.minibatches.extend(batch.minibatch(part, ranks) for part in rows)
    return batch


def _answer_weight(share: Rollout, config: Config, ranks: Ranks) -> float:
    """Compute the factor on the penalty of answer tokens, where it adapts from the searches of all ranks."""
    if not config.answer_adaptive:
        return config.answer_weight
    searches = float(sum(episode.tool_calls_valid for episode in share.episodes))
    total, responses = ranks.sum(torch.tensor((searches, len(share.episodes)), dtype=torch.float64)).tolist()
    return adaptive_answer_weight(config.answer_weight, total / responses)


def _whole(
    rollout: Rollout, config: Config, generator: torch.Generator, ranks: Ranks
) -> tuple[Rollout, Tensor, list[Tensor]]:
    """Select this rank's groups, and deal whole groups into minibatches: the share, its group ids, and their rows."""
    parts = _own_groups(len(rollout.episodes) // config.group_size, config.minibatches, generator, ranks)
    groups = torch.cat(parts).sort().values
    share = select(rollout, (groups[:, None] * config.group_size + torch.arange(config.group_size)).flatten())
    group_ids = groups.repeat_interleave(config.group_size)
    rows = [torch.cat([(group_ids == group).nonzero()[:, 0] for group in part.tolist()]) for part in parts]
    return share, group_ids, rows


def _split(rollout: Rollout, config: Config, generator: torch.Generator) -> tuple[Rollout, Tensor, list[Tensor]]:
    """Deal responses into minibatches without regard to their groups, in a single process; returns as `_whole`.

    The negative gradient of a group may then act in another update than its positive gradient, and the two no longer
    cancel on the beginnings that correct and incorrect responses share.
    """
    count = len(rollout.episodes)
    group_ids = torch.arange(count // config.group_size).repeat_interleave(config.group_size)
    dealt = torch.randperm(count, generator=generator, device=generator.device).cpu()
    return rollout, group_ids, [part.sort().values for part in dealt.chunk(config.minibatches)]


def _own_groups(groups: int, minibatches: int, generator: torch.Generator, ranks: Ranks) -> list[Tensor]:
    """Assign the groups to minibatches, and each minibatch's groups to the ranks; return this rank's groups."""
    dealt = torch.randperm(groups, generator=generator, device=generator.device).cpu()
    return [ranks.shard(part) for part in dealt.chunk(minibatches)]


def select(rollout: Rollout, rows: Tensor) -> Rollout:
    """Select some responses of a rollout."""
    return Rollout(
        tokens=rollout.tokens[rows],
        mask=rollout.mask[rows],
        rewards=rollout.rewards[rows],
        truncated=rollout.truncated[rows],
        episodes=[rollout.episodes[row] for row in rows.tolist()],
        sampler_logprobs=None if rollout.sampler_logprobs is None else rollout.sampler_logprobs[rows],
    )


def _token_scales(policy: Policy, tokens: Tensor, mask: Tensor, rewards: Tensor, group_ids: Tensor) -> Tensor:
    """Compute NTHR's factors group by group, so that only one group's logits are in memory."""
    scales = torch.ones(mask.shape, device=mask.device)
    for group in torch.unique(group_ids):
        rows = (group_ids == group).nonzero()[:, 0]
        before = F.pad(policy.hidden_states(tokens[rows])[:, :-1], (0, 0, 1, 0))
        logits = policy.logits(before)
        scales[rows] = nthr_scales(before, logits, tokens[rows], mask[rows], rewards[rows] > 0)
    return scales


def answer_tokens(rollout: Rollout) -> Tensor:
    """Mark the tokens from ``<answer>`` to the end of its action, shape ``(B, T)``, bool."""
    inside = [is_answer for episode in rollout.episodes for is_answer in episode.answer_mask]
    marked = torch.zeros_like(rollout.mask)
    marked[rollout.mask] = torch.tensor(inside, dtype=torch.bool)
    return marked
