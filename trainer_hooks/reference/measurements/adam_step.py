"""The newest update of AdamW, split into its parts, read from the optimiser's state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.optim import Optimizer

from trainer_hooks.reference.protocols import Policy

__all__ = ["AdamStep", "Weights", "add_weights", "copy_state", "scale_weights"]

Weights = dict[str, Tensor]
"""One tensor for each weight, by its name."""


@dataclass(frozen=True, slots=True)
class AdamStep:
    """One update of AdamW: its parts as directions in the space of weights, as they were added to the weights.

    The symbols are those of `trainer_hooks.reference.measurements.decomposition`.

    Attributes:
        scale: (1 − β₁) P, the factor of the gradient.
        momentum: −β₁ P ∘ m.
        decay: −η w θ.
        gradient: c g, after clipping.
        mean_scale: p̄ (1 − β₁).
        first_decay: β₁.
    """

    scale: Weights
    momentum: Weights
    decay: Weights
    gradient: Weights
    mean_scale: float
    first_decay: float

    @classmethod
    def newest(cls, policy: Policy, optimiser: Optimizer, before: Mapping[str, tuple[Tensor, Tensor]]) -> Self:
        """Read the newest update from the optimiser's state.

        Args:
            policy: The updated policy.
            optimiser: Its AdamW, with one group of parameters.
            before: The result of `copy_state` before the update.
        """
        settings = optimiser.param_groups[0]
        rate, epsilon, decay = settings["lr"], settings["eps"], settings["weight_decay"]
        first, second = settings["betas"]
        weights = dict(policy.named_parameters())
        scale, momentum, shrink, gradient = Weights(), Weights(), Weights(), Weights()
        for name, (weight, moment) in before.items():
            state = optimiser.state[weights[name]]
            count = float(state["step"])
            root = (state["exp_avg_sq"] / (1 - second**count)).sqrt() + epsilon
            whole = rate / (1 - first**count) / root
            scale[name] = (1 - first) * whole
            momentum[name] = -first * whole * moment
            shrink[name] = -rate * decay * weight
            taken = weights[name].grad
            gradient[name] = torch.zeros_like(weight) if taken is None else taken.detach().clone()
        length = _norm(gradient)
        scaled = _norm({name: scale[name] * gradient[name] for name in scale})
        return cls(scale, momentum, shrink, gradient, scaled / length if length else 0.0, first)

    @property
    def without_decay(self) -> Weights:
        """The direction by the whole first moment after the update: −P ∘ [β₁ m + (1 − β₁) c g]."""
        return {name: self.momentum[name] - scale * self.gradient[name] for name, scale in self.scale.items()}

    def moment_direction(self, moment: Weights) -> Weights:
        """Return the direction in which a part of the first moment after the update moved the weights: −P ∘ part."""
        factor = 1 / (1 - self.first_decay)
        return {name: -factor * scale * moment[name] for name, scale in self.scale.items()}

    def momentum_direction(self, moment: Weights) -> Weights:
        """Return the direction in which a part of the first moment before it moved the weights: −β₁ P ∘ part."""
        return scale_weights(self.moment_direction(moment), self.first_decay)

    def scaling_direction(self, gradient: Weights) -> Weights:
        """Return the direction by which AdamW's scale differs from the common one for a gradient: −(P − p̄) ∘ g."""
        return {name: -(scale - self.mean_scale) * gradient[name] for name, scale in self.scale.items()}


def add_weights(one: Weights, other: Weights, *, factor: float = 1.0) -> Weights:
    """Add a multiple of the other weights to one."""
    return {name: one[name] + factor * other[name] for name in one}


def scale_weights(weights: Weights, factor: float) -> Weights:
    """Multiply all weights by a number."""
    return {name: factor * weight for name, weight in weights.items()}


def copy_state(policy: Policy, optimiser: Optimizer, names: Sequence[str]) -> dict[str, tuple[Tensor, Tensor]]:
    """Copy the weights of these names and their first moments."""
    weights, state = dict(policy.named_parameters()), optimiser.state
    copies = {}
    for name in names:
        weight = weights[name]
        moment = state[weight]["exp_avg"].clone() if weight in state else torch.zeros_like(weight)
        copies[name] = (weight.detach().clone(), moment)
    return copies


def _norm(vectors: Weights) -> float:
    """Compute the Euclidean norm over all weights."""
    return float(torch.stack([vector.double().square().sum() for vector in vectors.values()]).sum().sqrt())
