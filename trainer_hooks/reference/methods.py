"""The methods by name: the terms that each adds to the clipped objective."""

from dataclasses import dataclass
from typing import Literal

from trainer_hooks.losses import LLDS_PRESETS, Gate, Normaliser

__all__ = ["METHODS", "LossMethod", "MethodName"]

MethodName = Literal[
    "grpo",
    "lld",
    "llds",
    "llds-action",
    "llds-release",
    "llds-release-response",
    "llds-ma",
    "llds-ma-action",
    "nthr",
    "ppo",
    "placebo",
    "kl-cov",
    "stare",
    "acpo",
]


@dataclass(frozen=True, kw_only=True)
class LossMethod:
    """The terms of the loss beside the clipped objective.

    Attributes:
        gate: Gate of the likelihood-preserving penalty λ L (eq. 4, 5, v2); None is no penalty.
        normaliser: The divisor of the penalty: tokens of the preserving set (eq. 5), or all (the authors' release).
        weight: λ where the settings give none.
        masks_answer: Whether answer tokens are left out of the penalty (LLDS-MA, eq. 6).
        scales_tokens: Whether tokens that lower correct responses get a smaller negative advantage (NTHR).
        has_critic: Whether a learned value gives each token's advantage (PPO), and not the group's rewards (GRPO).
        is_placebo: Whether λ weighs plain likelihood of the preserving set: the control that shows the effect of
            any likelihood term.
        holds_covariance: Whether a KL penalty on the tokens of the largest covariance replaces the clip (KL-Cov).
        scales_surprise: Whether surprising tokens get larger advantages while the entropy is low (STARE).
        adapts_clip: Whether the clip widens with the spread of the ratios (ACPO).
    """

    gate: Gate | None = None
    normaliser: Normaliser = "preserved"
    weight: float = LLDS_PRESETS["paper"].coef
    masks_answer: bool = False
    scales_tokens: bool = False
    has_critic: bool = False
    is_placebo: bool = False
    holds_covariance: bool = False
    scales_surprise: bool = False
    adapts_clip: bool = False

    @property
    def has_weight(self) -> bool:
        """Whether the method has a term that λ weighs."""
        return self.gate is not None or self.is_placebo or self.holds_covariance

    @property
    def compares_tokens(self) -> bool:
        """Whether tokens of all responses of an update are compared: each rank alone would find others."""
        return self.holds_covariance or self.scales_surprise or self.adapts_clip


METHODS: dict[MethodName, LossMethod] = {
    "grpo": LossMethod(),
    "lld": LossMethod(gate="none"),
    "llds": LossMethod(gate="response"),
    "llds-action": LossMethod(gate="action"),
    "llds-release": LossMethod(
        gate=LLDS_PRESETS["release"].gate,
        normaliser=LLDS_PRESETS["release"].normaliser,
        weight=LLDS_PRESETS["release"].coef,
    ),
    "llds-release-response": LossMethod(
        gate="response", normaliser=LLDS_PRESETS["release"].normaliser, weight=LLDS_PRESETS["release"].coef
    ),
    "llds-ma": LossMethod(gate="response", masks_answer=True),
    "llds-ma-action": LossMethod(gate="action", masks_answer=True),
    "nthr": LossMethod(scales_tokens=True),
    "ppo": LossMethod(has_critic=True),
    "placebo": LossMethod(is_placebo=True),
    "kl-cov": LossMethod(holds_covariance=True, weight=1.0),
    "stare": LossMethod(scales_surprise=True),
    "acpo": LossMethod(adapts_clip=True),
}
"""Vanilla GRPO; with LLD (eq. 4), LLDS with its two gates, as released, and as released with the gate by response,
LLDS-MA with either gate; with NTHR; PPO; the placebo; and three remedies of related work."""
