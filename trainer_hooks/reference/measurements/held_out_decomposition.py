"""Split the change of ln π of held-out correct responses over a step's updates into its causes, to first order.

The symbols and the method are those of `trainer_hooks.reference.measurements.decomposition`. No update is about the
question of a held-out response, so its parts are named by the sign of the gradients and not by their group:

- ``positives``: the gradients of the correct responses of all groups;
- ``negatives``: the gradients of the incorrect responses of all groups;
- ``regularisers``: the gradient of all other terms of the loss, and weight decay;
- ``earlier``: the first moment, as far as earlier steps made it;
- ``remainder``: the measured change minus all of these: second and higher orders.

The first three are whole effects within the step: with AdamW's own scale of each weight, at the update of a gradient
and through the momentum of the later updates of the step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trainer_hooks.reference.measurements.adam_step import AdamStep, Weights, add_weights
from trainer_hooks.reference.measurements.held_out_changes import HeldOut
from trainer_hooks.reference.measurements.response_derivative import response_derivative
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Policy

__all__ = ["HELD_OUT_PARTS", "HeldOutDecomposition", "OriginGradients"]

HELD_OUT_PARTS = ("positives", "negatives", "regularisers", "earlier", "remainder")


@dataclass(frozen=True, slots=True)
class OriginGradients:
    """Gradients by what they belong to: correct responses, incorrect responses, and all other terms of the loss."""

    positives: Weights
    negatives: Weights
    regularisers: Weights

    def by_part(self) -> Sequence[tuple[str, Weights]]:
        """Return the three with the names of their parts."""
        return (("positives", self.positives), ("negatives", self.negatives), ("regularisers", self.regularisers))


class HeldOutDecomposition:
    """Accumulates the parts of the change of held-out correct responses over the updates of one step.

    Args:
        policy: The policy that the updates train.
        held_out: Held-out responses, scored before the first update.
    """

    def __init__(self, policy: Policy, held_out: HeldOut) -> None:
        self._policy = policy
        self._tokens, self._mask = held_out.tokens[held_out.correct], held_out.mask[held_out.correct]
        self._before = held_out.logprobs[held_out.correct].sum(dim=1)
        self._sums = {part: torch.zeros_like(self._before) for part in HELD_OUT_PARTS if part != "remainder"}

    def add(self, weights: Weights, step: AdamStep, given: OriginGradients, carried: OriginGradients) -> None:
        """Account for one update.

        Args:
            weights: The weights before the update.
            step: The update.
            given: Its gradients, clipped.
            carried: The parts of the first moment before it that earlier updates of this step made.
        """
        if not len(self._before):
            return
        change = response_derivative(self._policy, weights, self._tokens, self._mask)
        earlier = step.momentum
        for (part, gradient), (_, moment) in zip(given.by_part(), carried.by_part(), strict=True):
            direction = step.gradient_direction(gradient)
            if moment:
                through_momentum = step.momentum_direction(moment)
                direction = add_weights(direction, through_momentum)
                earlier = add_weights(earlier, through_momentum, factor=-1.0)
            if part == "regularisers":
                direction = add_weights(direction, step.decay)
            self._sums[part] += change(direction)
        self._sums["earlier"] += change(earlier)

    @torch.no_grad()
    def signals(self) -> dict[str, float]:
        """Average over the responses, after the last update, in nats a response.

        Returns:
            ``decomposition/held_out_measured``, and ``decomposition/held_out_<part>`` for each of `HELD_OUT_PARTS`,
            which add up to it; nothing if no held-out response is correct.
        """
        if not len(self._before):
            return {}
        measured = token_statistics(self._policy, self._tokens, self._mask)[0].sum(dim=1) - self._before
        remainder = measured - torch.stack(list(self._sums.values())).sum(dim=0)
        found = {"measured": measured, **self._sums, "remainder": remainder}
        return {f"decomposition/held_out_{name}": change.mean().item() for name, change in found.items()}
