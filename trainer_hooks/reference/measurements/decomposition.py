"""Splits the change of ln π of correct responses over a step's updates into its causes, to first order.

An update of AdamW on a minibatch moves the weights by

    Δθ = −P ∘ [β₁ m + (1 − β₁) c g] − η w θ,   P = η / ((1 − β₁ᵗ) (√(v / (1 − β₂ᵗ)) + ε)),

with the learning rate η, the first moment m before the update, the second moment v after it, the gradient g of the
loss, the factor c of gradient clipping and the weight decay w. The gradient is a sum over responses, so Δθ is a sum of
parts, and ln π of a response y changes by ⟨∇ ln π(y), part⟩ to first order. The parts of a correct response:

- ``own``: the gradient of the correct responses of its group;
- ``negatives``: the gradient of the incorrect responses of its group;
- ``others``: the gradient of the other groups of the minibatch, or of a minibatch without its group;
- ``regularisers``: the gradient of all other terms of the loss, and weight decay;
- ``scaling``: the difference between AdamW's scale P of each weight and one common scale p̄ for all of them. The parts
  above are computed with p̄, which gives the update by the gradient the same length: ‖p̄ g‖ = ‖P ∘ g‖;
- ``momentum``: the first moment, made by earlier updates;
- ``remainder``: the measured change minus all of these: second and higher orders, the overshoot of a large step.

The first moment is a weighted sum of the gradients of earlier updates, m = (1 − β₁) Σ_s β₁^{t−1−s} c_s g_s, so the part
``momentum`` is a sum too. A gradient enters its own update with the weight 1 − β₁ = 0.1, and acts mostly through
later ones. ``momentum_own``, ``momentum_negatives``, ``momentum_others`` and ``momentum_regularisers`` are the shares
of gradients of this step's earlier updates, named as above, and ``momentum_earlier`` is the share of steps before it.
``scaling`` is split likewise (``scaling_own`` and so on), so that ``own + scaling_own + momentum_own`` is the whole
effect within the step that gradients of a group's correct responses have on them through AdamW.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor

from trainer_hooks.reference.measurements.adam_step import AdamStep, Weights, add_weights, copy_state, scale_weights
from trainer_hooks.reference.measurements.held_out_changes import HeldOut
from trainer_hooks.reference.measurements.held_out_decomposition import HeldOutDecomposition
from trainer_hooks.reference.measurements.question_probe import mixed_groups, response_logprobs
from trainer_hooks.reference.measurements.response_derivative import response_derivative
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.updates.batch import Minibatch, TrainingBatch
from trainer_hooks.reference.updates.learner import Learner
from trainer_hooks.reference.updates.objective import clipped_loss

__all__ = ["MOMENTUM_PARTS", "PARTS", "SCALING_PARTS", "Decomposition"]

PARTS = ("own", "negatives", "others", "regularisers", "scaling", "momentum", "remainder")

MOMENTUM_PARTS = (
    "momentum_own",
    "momentum_negatives",
    "momentum_others",
    "momentum_regularisers",
    "momentum_earlier",
)
"""The parts of ``momentum``, by the gradients that made it."""

SCALING_PARTS = ("scaling_own", "scaling_negatives", "scaling_others", "scaling_regularisers")
"""The parts of ``scaling``, by the gradients that it scales."""

Signed = tuple[Weights, Weights]
"""Gradients of a group's correct and of its incorrect responses."""


class Decomposition:
    """Takes the updates of a step on a batch, and accumulates the parts of the change of its correct responses.

    The responses are the correct ones of the groups that also have incorrect ones. The updates themselves are those of
    `Learner.update`, bit for bit.

    Args:
        learner: The policy and its optimiser, in a single process.
        batch: A batch that has just been prepared.
        held_out: Held-out responses, whose change is split as well; None where there are none.
    """

    def __init__(self, learner: Learner, batch: TrainingBatch, held_out: HeldOut | None = None) -> None:
        self._learner = learner
        self._batch = batch
        self._held_out = None if held_out is None else HeldOutDecomposition(learner.policy, held_out)
        mixed = torch.tensor(mixed_groups(batch), dtype=batch.group_ids.dtype, device=batch.group_ids.device)
        self._rows = (torch.isin(batch.group_ids, mixed) & (batch.rewards > 0)).nonzero()[:, 0]
        self._sums = {
            part: torch.zeros(len(self._rows), device=batch.rewards.device)
            for part in (*PARTS, *MOMENTUM_PARTS, *SCALING_PARTS)
        }
        # The gradients that this step's updates added to the first moment, by group: of correct and incorrect
        # responses.
        self._carried: dict[int, Signed] = {}
        self._carried_rest: Weights = {}
        self._measured = torch.zeros(len(self._rows), device=batch.rewards.device)

    def update(self, part: Minibatch) -> dict[str, float]:
        """Take one update on a minibatch, as `Learner.update` does, and account for its effect."""
        if not len(self._rows):
            return self._learner.update(self._batch, part)
        learner, batch = self._learner, self._batch
        names = [name for name, weight in learner.policy.named_parameters() if weight.requires_grad]
        gradients = self._gradients_by_group(part, names)
        before = copy_state(learner.policy, learner.optimiser, names)
        scores = response_logprobs(learner.policy, batch, self._rows)
        losses = learner.update(batch, part)
        after = {name: weight.detach().clone() for name, weight in learner.policy.named_parameters() if name in before}
        if all(torch.equal(before[name][0], after[name]) for name in names):
            return losses
        step = AdamStep.newest(learner.policy, learner.optimiser, before)
        limit, norm = learner.config.max_grad_norm, losses["grad/norm"]
        clip = min(1.0, limit / (norm + 1e-6)) if limit else 1.0
        moved = response_logprobs(learner.policy, batch, self._rows) - scores
        clipped = {
            group: (scale_weights(positive, clip), scale_weights(negative, clip))
            for group, (positive, negative) in gradients.items()
        }
        rest = _rest(step.gradient, clipped)
        # First-order changes are taken at the weights before the update.
        weights = {name: before[name][0] for name in names}
        found = self._first_order(weights, step, clipped, rest)
        found["remainder"] = moved - torch.stack(list(found.values())).sum(dim=0)
        scaling = self._by_origin(weights, clipped, rest, step.scaling_direction)
        found |= {f"scaling_{name}": change for name, change in scaling.items()}
        carried = self._by_origin(weights, self._carried, self._carried_rest, step.momentum_direction)
        found |= {f"momentum_{name}": change for name, change in carried.items()}
        found["momentum_earlier"] = found["momentum"] - torch.stack(list(carried.values())).sum(dim=0)
        self._carry(step, clipped, rest)
        if self._held_out is not None:
            self._held_out.add(weights, step, self._carried_by_sign())
        self._measured += moved
        for name, change in found.items():
            self._sums[name] += change
        return losses

    def signals(self) -> dict[str, float]:
        """Average over the responses, in nats a response.

        Returns:
            ``decomposition/measured`` and ``decomposition/<part>`` for each of `PARTS`, which add up to it, and of
            `MOMENTUM_PARTS` and `SCALING_PARTS`, which add up to ``decomposition/momentum`` and to
            ``decomposition/scaling``, and the signals of `HeldOutDecomposition`; nothing where the batch has no mixed
            group.
        """
        if not len(self._rows):
            return {}
        means = {f"decomposition/{name}": total.mean().item() for name, total in self._sums.items()}
        held_out = self._held_out.signals() if self._held_out is not None else {}
        return {"decomposition/measured": self._measured.mean().item()} | means | held_out

    def by_response(self) -> Mapping[str, Tensor]:
        """Return the parts and ``measured`` of each response, shape ``(responses,)``, nats."""
        return self._sums | {"measured": self._measured}

    def _first_order(
        self, weights: Weights, step: AdamStep, gradients: Mapping[int, Signed], rest: Weights
    ) -> dict[str, Tensor]:
        """Compute the first-order change of each response by part, all but the remainder."""
        change = self._derivative(weights, self._rows)
        common = {
            group: [change(scale_weights(of_sign, -step.mean_scale)) for of_sign in signs]
            for group, signs in gradients.items()
        }
        zero = torch.zeros(len(self._rows), device=self._measured.device)
        groups = self._batch.group_ids[self._rows]
        found = {"own": zero.clone(), "negatives": zero.clone(), "others": zero.clone()}
        for group, (positive, negative) in common.items():
            is_own = groups == group
            found["own"] += torch.where(is_own, positive, zero)
            found["negatives"] += torch.where(is_own, negative, zero)
            found["others"] += torch.where(is_own, zero, positive + negative)
        found["regularisers"] = change(add_weights(step.decay, rest, factor=-step.mean_scale))
        found["scaling"] = change(step.scaling_direction(step.gradient))
        found["momentum"] = change(step.momentum)
        return found

    def _by_origin(
        self, weights: Weights, groups: Mapping[int, Signed], rest: Weights, direction: Callable[[Weights], Weights]
    ) -> dict[str, Tensor]:
        """Compute the first-order change of each response by ``direction`` of gradients, by part.

        Args:
            weights: The weights before the update.
            groups: By group, the sums of the gradients of its correct and of its incorrect responses.
            rest: The gradient of all other terms of the loss.
            direction: Maps a gradient to the change of the weights; linear.
        """
        change = self._derivative(weights, self._rows)
        zero = torch.zeros(len(self._rows), device=self._measured.device)
        found = {"own": zero.clone(), "negatives": zero.clone(), "others": zero, "regularisers": zero}
        of_rows = self._batch.group_ids[self._rows]
        for group, signs in groups.items():
            is_own = of_rows == group
            if is_own.any():
                of_group = self._derivative(weights, self._rows[is_own])
                for part, gradient in zip(("own", "negatives"), signs, strict=True):
                    found[part][is_own] = of_group(direction(gradient))
        if groups:
            sums = {
                name: torch.stack([positive[name] + negative[name] for positive, negative in groups.values()]).sum(0)
                for name in weights
            }
            found["others"] = change(direction(sums)) - found["own"] - found["negatives"]
        if rest:
            found["regularisers"] = change(direction(rest))
        return found

    def _carry(self, step: AdamStep, clipped: Mapping[int, Signed], rest: Weights) -> None:
        """Add an update's gradients to those that this step has added to the first moment."""
        zeros = {name: torch.zeros_like(whole) for name, whole in step.gradient.items()}

        def decay_moment(held: Weights, given: Weights) -> Weights:
            decay = step.first_decay
            return {name: decay * held[name] + (1 - decay) * given[name] for name in zeros}

        for group in {*self._carried, *clipped}:
            held, given = self._carried.get(group, (zeros, zeros)), clipped.get(group, (zeros, zeros))
            self._carried[group] = decay_moment(held[0], given[0]), decay_moment(held[1], given[1])
        self._carried_rest = decay_moment(self._carried_rest or zeros, rest)

    def _carried_by_sign(self) -> dict[str, Weights]:
        """Return what this step's updates have added to the first moment, by the first parts of `HELD_OUT_PARTS`."""
        positives, negatives = (
            reduce(add_weights, (signs[sign] for signs in self._carried.values())) for sign in (0, 1)
        )
        return {"positives": positives, "negatives": negatives, "regularisers": self._carried_rest}

    def _derivative(self, weights: Weights, rows: Tensor) -> Callable[[Weights], Tensor]:
        return response_derivative(self._learner.policy, weights, self._batch.tokens[rows], self._batch.mask[rows])

    def _gradients_by_group(self, part: Minibatch, names: Sequence[str]) -> dict[int, Signed]:
        """Compute the gradient of eq. 1 by group of a minibatch, of its correct and of its incorrect responses."""
        learner, batch, rows = self._learner, self._batch, part.rows
        weights = dict(learner.policy.named_parameters())
        chosen = [weights[name] for name in names]
        is_correct = batch.rewards[rows] > 0
        found = {}
        for group in torch.unique(batch.group_ids[rows]).tolist():
            signs = []
            for of_sign in (is_correct, ~is_correct):
                is_in = (batch.group_ids[rows] == group) & of_sign
                logprobs = token_statistics(learner.policy, batch.tokens[rows], batch.mask[rows])[0]
                loss = clipped_loss(batch, part, logprobs, config=learner.config, kept=is_in)
                gradient = torch.autograd.grad(loss, chosen)
                signs.append(dict(zip(names, gradient, strict=True)))
            found[group] = (signs[0], signs[1])
        return found


def _rest(whole: Weights, groups: Mapping[int, Signed]) -> Weights:
    """Subtract the gradients of all groups from a whole gradient."""
    rest = dict(whole)
    for positive, negative in groups.values():
        rest = {name: rest[name] - positive[name] - negative[name] for name in rest}
    return rest
