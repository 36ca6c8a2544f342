"""Splits the change of ln π of held-out correct responses over a step's updates into its causes, to first order.

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

from collections.abc import Mapping

import torch

from trainer_hooks.reference.measurements.adam_step import AdamStep, Weights, add_weights
from trainer_hooks.reference.measurements.held_out_changes import HeldOut
from trainer_hooks.reference.measurements.response_derivative import response_derivative
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Policy

__all__ = ["HELD_OUT_PARTS", "HeldOutDecomposition"]

HELD_OUT_PARTS = ("positives", "negatives", "regularisers", "earlier", "remainder")


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

    def add(self, weights: Weights, step: AdamStep, moments: Mapping[str, Weights]) -> None:
        """Account for one update.

        Args:
            weights: The weights before the update.
            step: The update.
            moments: For each of the first three parts, what the gradients of this step have added to the first moment,
                those of this update included.
        """
        if not len(self._before):
            return
        change = response_derivative(self._policy, weights, self._tokens, self._mask)
        earlier = step.without_decay
        for part, moment in moments.items():
            direction = step.moment_direction(moment)
            earlier = add_weights(earlier, direction, factor=-1.0)
            self._sums[part] += change(direction)
        self._sums["regularisers"] += change(step.decay)
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
