"""The effect of a question's own update on its correct responses (eq. 3), and GWHES (eq. 9), which predicts it.

From the parameters as they are, each question in turn is the whole minibatch of one update. Its correct responses are
scored before and after, and the parameters and the optimiser are then restored bit for bit.

Two optimisers are possible. A fresh AdamW, the default, has no moments, so Δ is the effect of the question's own
gradient: every weight moves by about the learning rate. The run's own AdamW adds its moments, most of
which come from other questions, so Δ then mixes the question's own effect with theirs.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - torch's own idiom

from trainer_hooks.losses import gwhes
from trainer_hooks.reference.config_fields import ProbeOptimiser
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Policy
from trainer_hooks.reference.updates.batch import TrainingBatch
from trainer_hooks.reference.updates.learner import Learner

__all__ = [
    "MULTIPLIERS",
    "QuestionProbe",
    "displacement_by_question",
    "gwhes_by_action",
    "half_fall_multiplier",
    "mixed_groups",
    "probe_questions",
    "probe_signals",
    "response_logprobs",
]

MULTIPLIERS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Factors on the learning rate of the probes of a sweep."""

ACTIONS = 2
"""Actions with a GWHES signal of their own."""


@dataclass(frozen=True, slots=True)
class QuestionProbe:
    """The probes of one question.

    Attributes:
        displacement: Δ(x) of eq. 3 in nats a response, by the multiplier of the learning rate.
        gwhes: G of eq. 9 summed over the actions of a correct response, averaged over its correct responses.
        gwhes_by_action: G of each action, averaged over the correct responses that have it; NaN where none has.
    """

    displacement: Mapping[float, float]
    gwhes: float
    gwhes_by_action: tuple[float, ...]


def probe_questions(
    learner: Learner,
    batch: TrainingBatch,
    *,
    optimiser: ProbeOptimiser = "fresh",
    multipliers: Sequence[float] = (1.0,),
) -> dict[int, QuestionProbe]:
    """Probe every mixed group of a batch; arguments as in `displacement_by_question`."""
    found = {
        multiplier: displacement_by_question(learner, batch, optimiser=optimiser, multiplier=multiplier)
        for multiplier in multipliers
    }
    weights = gwhes_by_action(learner.policy, batch)
    return {
        group: QuestionProbe(
            displacement={multiplier: changes[group] for multiplier, changes in found.items()},
            gwhes=weight.nansum(dim=1).mean().item(),
            gwhes_by_action=tuple(weight.nanmean(dim=0).tolist()),
        )
        for group, weight in weights.items()
    }


def probe_signals(probes: Mapping[int, QuestionProbe]) -> dict[str, float]:
    """Summarise the probes of a step over its questions.

    Returns:
        ``probe/displacement_mean`` and ``probe/fell_frac``: mean of Δ(x), and the share of questions with Δ(x) < 0, at
        the first multiplier. ``probe/half_fall_multiplier``: s*, where the sweep reaches it. ``similarity/gwhes``,
        ``similarity/gwhes_action0`` and ``_action1``: mean of G; ``similarity/gwhes_positive_frac`` and
        ``similarity/gwhes_action0_positive_frac``: share of questions with G > 0, where the theory predicts a fall.
    """
    if not probes:
        return {}
    multipliers = tuple(next(iter(probes.values())).displacement)
    shares = {
        multiplier: fmean(probe.displacement[multiplier] < 0 for probe in probes.values()) for multiplier in multipliers
    }
    first = multipliers[0]
    signals = {
        "probe/displacement_mean": fmean(probe.displacement[first] for probe in probes.values()),
        "probe/fell_frac": shares[first],
        "similarity/gwhes": fmean(probe.gwhes for probe in probes.values()),
        "similarity/gwhes_positive_frac": fmean(probe.gwhes > 0 for probe in probes.values()),
    }
    half = half_fall_multiplier(shares) if len(shares) > 1 else None
    if half is not None:
        signals["probe/half_fall_multiplier"] = half
    for action in range(ACTIONS):
        values = [probe.gwhes_by_action[action] for probe in probes.values() if action < len(probe.gwhes_by_action)]
        present = [value for value in values if not math.isnan(value)]
        if present:
            signals[f"similarity/gwhes_action{action}"] = fmean(present)
            if action == 0:
                signals["similarity/gwhes_action0_positive_frac"] = fmean(value > 0 for value in present)
    return signals


def half_fall_multiplier(shares: Mapping[float, float]) -> float | None:
    """Compute s*: the multiplier of the learning rate at which half of the questions fall.

    Args:
        shares: Share of questions with Δ(x) < 0 by multiplier, in increasing order of the multipliers.

    Returns:
        The smallest multiplier whose share is 0.5 or more, interpolated on log₂ of the multiplier from the one before;
        None where no share reaches 0.5.
    """
    before: tuple[float, float] | None = None
    for multiplier, share in shares.items():
        if share >= 0.5:  # noqa: PLR2004 - half
            if before is None:
                return multiplier
            low, low_share = before
            part = (0.5 - low_share) / (share - low_share)
            return float(low * (multiplier / low) ** part)
        before = multiplier, share
    return None


def displacement_by_question(
    learner: Learner, batch: TrainingBatch, *, optimiser: ProbeOptimiser = "fresh", multiplier: float = 1.0
) -> dict[int, float]:
    """Compute Δ(x) = mean over correct responses of ln π_θ'(y⁺|x) − ln π_θ(y⁺|x), nats, by group (eq. 3).

    Args:
        learner: The policy and its optimiser; the same bits afterwards.
        batch: A batch that has just been sampled, before it is trained on; the same afterwards.
        optimiser: ``"fresh"`` takes θ' by an AdamW without moments, ``"run"`` by the run's own, moments included.
        multiplier: Factor on the learning rate, above 0.

    Returns:
        Δ by group number, for the groups that have both correct and incorrect responses.
    """
    model, adamw = learner.policy, learner.optimiser
    weights, moments = copy.deepcopy(model.state_dict()), copy.deepcopy(adamw.state_dict())
    logprobs = batch.logprobs.clone()
    found = {}
    for group in mixed_groups(batch):
        rows = (batch.group_ids == group).nonzero()[:, 0]
        correct = rows[batch.rewards[rows] > 0]
        before = response_logprobs(model, batch, correct)
        if optimiser == "fresh":
            adamw.state.clear()
        for settings in adamw.param_groups:
            settings["lr"] = settings["lr"] * multiplier
        learner.update(batch, batch.minibatch(rows), alone=True)
        found[group] = (response_logprobs(model, batch, correct) - before).mean().item()
        model.load_state_dict(weights)
        adamw.load_state_dict(copy.deepcopy(moments))
    batch.logprobs.copy_(logprobs)
    return found


@torch.no_grad()
def gwhes_by_action(model: Policy, batch: TrainingBatch) -> dict[int, Tensor]:
    """Compute G of every action of every correct response (eq. 9), shape ``(correct, actions)``, by mixed group."""
    found = {}
    for group in mixed_groups(batch):
        rows = batch.group_ids == group
        tokens = batch.tokens[rows]
        before = F.pad(model.hidden_states(tokens)[:, :-1], (0, 0, 1, 0))
        correct = batch.rewards[rows] > 0
        found[group] = gwhes(before, model.logits(before), tokens, batch.mask[rows], correct)[correct]
    return found


def mixed_groups(batch: TrainingBatch) -> list[int]:
    """List the groups that have both correct and incorrect responses."""
    right, wrong = (torch.unique(batch.group_ids[chosen]) for chosen in (batch.rewards > 0, batch.rewards <= 0))
    return right[torch.isin(right, wrong)].tolist()  # type: ignore[no-any-return]


@torch.no_grad()
def response_logprobs(model: Policy, batch: TrainingBatch, rows: Tensor) -> Tensor:
    """Compute ln π_θ of whole responses, shape ``(rows,)``, nats."""
    logprobs, _ = token_statistics(model, batch.tokens[rows], batch.mask[rows])
    return logprobs.sum(dim=1)
