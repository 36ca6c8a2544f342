"""Advice from a check: the steps that a timely stop would have saved, and the signals that were not logged."""

from collections.abc import Sequence
from dataclasses import dataclass

from monitor_server.detection.protocol import DriftInput
from monitor_server.durations import HOUR_SECONDS
from monitor_server.log_check.examination import Examination

__all__ = ["Gap", "Saving", "gaps", "saving"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The part of a run after the first critical finding: steps, and GPU-hours if the time of a step is known."""

    from_step: int
    steps: int
    gpu_hours: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A signal that was not logged: what it would have shown, and how to log it."""

    signals: Sequence[str]
    cost: str
    remedy: str


# Ordered by the loss without them. The trainers' switches are those of TRL 1.16, verl 0.8 and OpenRLHF 0.10.
_GAPS = (
    Gap(
        signals=("entropy/mean",),
        cost="no phase but a collapse is recognised, and drift, entropy collapse and entropy explosion are not seen",
        remedy="TRL and verl log `entropy` in their recent versions; the SDK computes it from `entropies`",
    ),
    Gap(
        signals=("likelihood/correct",),
        cost="a falling likelihood of correct responses, which moves first, is seen only through the entropy",
        remedy="No trainer logs it: add the SDK's callback (docs/trainers), which computes it from the arrays at hand",
    ),
    Gap(
        signals=("grad/norm",),
        cost="a gradient explosion and the acceleration before a collapse are not seen",
        remedy="Log the norm before clipping: `grad_norm` (TRL), `actor/grad_norm` (verl)",
    ),
    Gap(
        signals=("reward/mean",),
        cost="a falling, dead or hacked reward is not seen",
        remedy="Log the mean raw reward: `reward` (TRL), `critic/score/mean` (verl); or name yours with --map",
    ),
    Gap(
        signals=("ratio/clip_frac", "kl/old"),
        cost="updates that leave the trust region are not seen",
        remedy="`clip_ratio/region_mean` (TRL), `actor/pg_clipfrac` and `actor/ppo_kl` (verl)",
    ),
    Gap(
        signals=("length/mean", "length/truncated_frac"),
        cost="responses that grow, shrink or are cut are not seen",
        remedy="`completions/mean_length` and `completions/clipped_ratio` (TRL), `response_length/…` (verl)",
    ),
    Gap(
        signals=("mismatch/kl", "mismatch/ratio", "mismatch/logprob_abs"),
        cost="a sampler that drifts away from the trainer (vLLM, SGLang) is not seen",
        remedy="`sampling/…` (TRL with vLLM), `rollout_corr/…` (verl), `Mismatch KL` (prime-rl)",
    ),
    Gap(
        signals=("reward/zero_std_frac",),
        cost="groups that teach nothing, because all their rewards are equal, are not seen",
        remedy="`frac_reward_zero_std` (TRL)",
    ),
)


def saving(found: Examination, *, gpus: int | None = None, step_seconds: float | None = None) -> Saving | None:
    """Return the part of a run after the first critical finding; None if there was none, or the log ends there.

    Args:
        found: The examination of one log.
        gpus: Number of accelerators; without it no hours are computed.
        step_seconds: Time of a step; by default the median of the log's own times.
    """
    steps = found.trained - found.trained_at_page
    if found.page_step is None or not steps:
        return None
    logged = max(1, found.trained) / max(1, found.rows - 1)
    # The log's times belong to logged rows, which may be several steps apart.
    seconds = step_seconds or (found.step_seconds / logged if found.step_seconds else None)
    hours = gpus * seconds * steps / HOUR_SECONDS if gpus and seconds else None
    return Saving(from_step=found.page_step, steps=steps, gpu_hours=hours)


def gaps(found: Examination) -> Sequence[Gap]:
    """Return the signals that were not logged, the most important first."""
    missing = [gap for gap in _GAPS if not found.envelopes.keys() & set(gap.signals)]
    if found.drift_input is DriftInput.PAIRED:  # this input already implies the likelihood
        missing = [gap for gap in missing if "likelihood/correct" not in gap.signals]
    return missing
