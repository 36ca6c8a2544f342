"""What is optimised: every method by its name, as what it adds to the clipped objective. One option chooses one."""

from dataclasses import dataclass
from typing import Literal

from trainer_hooks.losses import Gate

__all__ = ["METHODS", "Method", "MethodName"]

MethodName = Literal["grpo", "lld", "llds", "llds-action", "llds-ma", "llds-ma-action", "nthr", "ppo", "placebo"]


@dataclass(frozen=True, kw_only=True)
class Method:
    """What stands in the loss beside the clipped objective.

    Attributes:
        gate: Gate of the likelihood-preserving penalty λ L (eq. 4, 5, v2); None is no penalty.
        spares_answer: Whether answer tokens are left out of the penalty (LLDS-MA, eq. 6).
        softens: Whether tokens that hurt correct responses get a smaller negative advantage (NTHR).
        has_critic: Whether a learned value gives each token's advantage (PPO), and not the group's rewards (GRPO).
        is_placebo: Whether λ weighs plain likelihood of the preserving set: the control for "any pull towards good
            responses would do".
    """

    gate: Gate | None = None
    spares_answer: bool = False
    softens: bool = False
    has_critic: bool = False
    is_placebo: bool = False

    @property
    def is_weighed(self) -> bool:
        """Whether λ has something to weigh."""
        return self.gate is not None or self.is_placebo


METHODS: dict[MethodName, Method] = {
    "grpo": Method(),
    "lld": Method(gate="none"),
    "llds": Method(gate="response"),
    "llds-action": Method(gate="action"),
    "llds-ma": Method(gate="response", spares_answer=True),
    "llds-ma-action": Method(gate="action", spares_answer=True),
    "nthr": Method(softens=True),
    "ppo": Method(has_critic=True),
    "placebo": Method(is_placebo=True),
}
"""Vanilla GRPO; with LLD (eq. 4), LLDS with its two gates, LLDS-MA with either; with NTHR; PPO; the placebo."""
