"""The remedies against each kind of alert that the literature or our experiments support, with sources.

This module contains declarations only. A source is a paper, a public thread, or a page of this repository. A remedy
that has not been measured states this.
"""

from dataclasses import dataclass
from typing import Final

__all__ = ["NONE_KNOWN", "REMEDIES", "Remedy", "remedies"]

LLD: Final = "arXiv 2512.04220"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One recommended change.

    Attributes:
        change: What to change.
        how: How to make it, and its requirements.
        source: Who reported that it helps, or where we measured it.
        kinds: The kinds of alert that it helps against.
        needs: The observation that it requires: "resembling", "first action", or nothing.
    """

    change: str
    how: str
    source: str
    kinds: frozenset[str]
    needs: str | None = None


def _kinds(*names: str) -> frozenset[str]:
    return frozenset(names)


SPIRAL: Final = _kinds("likelihood_drift", "death_spiral", "run_collapsed", "entropy_explosion")

REMEDIES: Final = (
    Remedy(
        change="Go back to a checkpoint from before the onset",
        how="A run that continues unchanged fails again: apply one of the remedies below as well.",
        source="docs/runbooks/grpodeathspiral.md",
        kinds=_kinds("death_spiral", "run_collapsed", "non_finite", "entropy_collapse"),
    ),
    Remedy(
        change="Add LLDS with λ = 0.1",
        how="It penalises a fall of ln π on responses with A ≥ 0, from the second update of a rollout on; with one "
        "update a rollout it has no effect. LLDSGRPOTrainer in TRL, the llds policy loss in verl.",
        source=f"{LLD}, eq. 5 to 7 and Fig. 8: λ 0 dies near step 200, 0.01 near 220, 0.1 trains on. On our small "
        "trainer it postpones the collapse at best, and does not prevent it (docs/experiments/README.md)",
        kinds=SPIRAL,
    ),
    Remedy(
        change="Gate LLDS by action",
        how='gate="action": only actions whose own likelihood fell are held.',
        source=f"{LLD} v2, whose authors report it as the better gate",
        kinds=SPIRAL,
        needs="first action",
    ),
    Remedy(
        change="Scale down the negative advantage of tokens that resemble correct responses (NTHR)",
        how="nthr_scales in trainer_hooks.losses; needs hidden states.",
        source='"On the Effect of Negative Gradient in Group Relative Deep Reinforcement Optimization" (May 2025)',
        kinds=SPIRAL,
        needs="resembling",
    ),
    Remedy(
        change="Lower the learning rate",
        how="Halve it, or end its climb; the warning stage is reversible.",
        source="Search-R1 issue 88: its author finds a low learning rate safer; on our small trainer half the rate "
        "keeps four or five of five seeds alive in three of five regimes (docs/experiments/mechanism.md)",
        kinds=SPIRAL
        | _kinds(
            "gradient_explosion",
            "loss_explosion",
            "clip_surge",
            "off_policy_blowup",
            "ratio_tail",
            "kl_runaway",
            "learning_rate_rise",
            "non_finite",
        ),
    ),
    Remedy(
        change="Add a KL term to the reference",
        how="Start with a weight of 0.01.",
        source="docs/experiments: on our small trainer a weight of 0.01 moves the median collapse of five seeds from "
        "step 93 to 138 under the preset demo, from 141 to 150 under spiral, and from 239 to 247 under stubborn",
        kinds=SPIRAL | _kinds("kl_runaway"),
    ),
    Remedy(
        change="Leave out responses with void turns",
        how="Take each response that has a turn with neither a tool call nor an answer out of the update.",
        source="SimpleTIR, arXiv 2509.02479",
        kinds=_kinds("death_spiral", "gradient_explosion", "entropy_explosion", "tool_use_collapse"),
    ),
    Remedy(
        change="Mask the answer in LLDS (LLDS-MA)",
        how="The penalty leaves answer tokens out, so that searching is kept likely and answering early is not.",
        source=f"{LLD}, eq. 6 and Fig. 9: valid searches a question rise above 2, from 1 under LLDS",
        kinds=_kinds("tool_use_collapse"),
    ),
    Remedy(
        change="Raise the upper clip alone (clip-higher)",
        how="ε_low 0.2, ε_high 0.28: unlikely tokens may grow.",
        source="DAPO, arXiv 2503.14476",
        kinds=_kinds("entropy_collapse"),
    ),
    Remedy(
        change="Sample until the rewards of each group differ (dynamic sampling)",
        how="Groups that are all right or all wrong carry no gradient.",
        source="DAPO, arXiv 2503.14476; the early share of such groups explains 62 % of the variance of final scores "
        "in arXiv 2605.21125",
        kinds=_kinds("reward_signal_dead"),
    ),
    Remedy(
        change="Skip an update whose groups all have equal rewards, or set its entropy bonus to 0",
        how="The bonus is then the whole gradient, and AdamW takes steps of full size for it, however small it is.",
        source="docs/experiments/mechanism.md: with the bonus the entropy of a pretrained model without contrast rises "
        "to 9.8 nats, and without it to 4.5 at most (one seed)",
        kinds=_kinds("reward_signal_dead"),
    ),
    Remedy(
        change="Correct for the sampler: truncated importance sampling, the same precision on both sides",
        how="Weight by min(π_trainer / π_sampler, a bound); sample afresh more often.",
        source='Liu and Li, "When Speed Kills Stability" (2025)',
        kinds=_kinds("sampler_mismatch", "mismatch_growth"),
    ),
    Remedy(
        change="Fewer updates a rollout, fresher samples",
        how="The ratio's tail grows with each update on the same rollout.",
        source="VCPO, arXiv 2602.17616: collapse is predicted by the effective sample size",
        kinds=_kinds("off_policy_blowup", "clip_surge", "ratio_tail"),
    ),
    Remedy(
        change="Score held-out tasks beside the reward, then close the shortcut in the reward",
        how="Read sampled responses to find what the reward pays for; roll back to the step with the best held-out "
        "score.",
        source="TRL issue 2959: the reward saturated at 1.0 while accuracy collapsed. The effect of this "
        "remedy is not measured",
        kinds=_kinds("reward_hacking"),
    ),
)

# Kinds for which neither the literature that we know nor our experiments have shown a remedy. The page of each under
# docs/detectors states where to look.
NONE_KNOWN: Final = _kinds(
    "advantage_order",
    "all_truncated",
    "attention_collapse",
    "control_token_anomaly",
    "control_token_spike",
    "dead_environment",
    "difficulty_shift",
    "entropy_drift",
    "equal_rewards",
    "frozen_ratio",
    "garbled_text",
    "impossible_likelihood",
    "instrument_gap",
    "joint_departure",
    "length_collapse",
    "length_explosion",
    "likelihood_stagnation",
    "plateau",
    "repetition",
    "reward_fall",
    "router_collapse",
    "sampler_gap",
    "truncation",
    "unmasked_feedback",
    "zero_rate",
)


def remedies(kind: str, *, observed: frozenset[str] = frozenset()) -> list[Remedy]:
    """Return the remedies for a kind of alert; remedies that need an observation only if it was made."""
    return [r for r in REMEDIES if kind in r.kinds and (r.needs is None or r.needs in observed)]
