"""What one question's own update does to its own correct responses (eq. 3), and how GWHES (eq. 9) explains it.

From the parameters as they are, each question in turn is the whole minibatch of one update; what it did is measured
on the question's correct responses, and the parameters and the optimiser are put back bit for bit.
"""

import copy

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - torch's own idiom

from trainer_hooks.losses import gwhes
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Policy
from trainer_hooks.reference.updates.batch import TrainingBatch
from trainer_hooks.reference.updates.learner import Learner

__all__ = ["displacement_by_question", "gwhes_by_question"]


def displacement_by_question(learner: Learner, batch: TrainingBatch) -> dict[int, float]:
    """Return Δ(x) = mean over correct responses of ln π_θ'(y⁺|x) − ln π_θ(y⁺|x), nats, by group (eq. 3).

    The update is the one that the optimiser would take now, its momentum included, if the question were the minibatch.

    Args:
        learner: The policy and its optimiser; the same bits afterwards.
        batch: A batch that has just been sampled, before it is trained on; the same afterwards.

    Returns:
        Δ by group number, for the groups that have both correct and incorrect responses.
    """
    model, optimiser = learner.policy, learner.optimiser
    weights, moments = copy.deepcopy(model.state_dict()), copy.deepcopy(optimiser.state_dict())
    seen = batch.logprobs.clone()
    found = {}
    for group in _mixed(batch):
        rows = (batch.group_ids == group).nonzero()[:, 0]
        correct = rows[batch.rewards[rows] > 0]
        before = _response_logprobs(model, batch, correct)
        learner.update(batch, batch.minibatch(rows), alone=True)
        found[group] = (_response_logprobs(model, batch, correct) - before).mean().item()
        model.load_state_dict(weights)
        optimiser.load_state_dict(copy.deepcopy(moments))
    batch.logprobs.copy_(seen)
    return found


@torch.no_grad()
def gwhes_by_question(model: Policy, batch: TrainingBatch) -> dict[int, float]:
    """Return G summed over the actions of a correct response and averaged over them (eq. 9), by mixed group."""
    found = {}
    for group in _mixed(batch):
        rows = batch.group_ids == group
        tokens = batch.tokens[rows]
        before = F.pad(model.hidden(tokens)[:, :-1], (0, 0, 1, 0))
        correct = batch.rewards[rows] > 0
        by_action = gwhes(before, model.logits(before), tokens, batch.mask[rows], correct)
        found[group] = by_action[correct].nansum(dim=1).mean().item()
    return found


def _mixed(batch: TrainingBatch) -> list[int]:
    """Groups that have both correct and incorrect responses."""
    right, wrong = (torch.unique(batch.group_ids[chosen]) for chosen in (batch.rewards > 0, batch.rewards <= 0))
    return right[torch.isin(right, wrong)].tolist()  # type: ignore[no-any-return]


@torch.no_grad()
def _response_logprobs(model: Policy, batch: TrainingBatch, rows: Tensor) -> Tensor:
    logprobs, _ = token_statistics(model, batch.tokens[rows], batch.mask[rows])
    return logprobs.sum(dim=1)
