"""Maps the names of each trainer's metrics to canonical signal names (docs/signals.md). Depends on no framework.

A metric whose name suggests a signal that it does not measure is left out of the tables.
"""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from trainer_hooks.signals import NAMES
from trainer_hooks.text_safety import describe_error

__all__ = [
    "OPENRLHF",
    "PARTIAL_STEP",
    "SIGNALS",
    "SKYRL",
    "TRANSFORMERS",
    "TRL",
    "TRL_ASYNC",
    "TRL_KTO",
    "VERL",
    "canonical",
]

# 1 at a step that an exception ended before its update; signals that were not measured by then are missing.
PARTIAL_STEP = "hooks/partial_step"

# Signals computed from token arrays, and signals that only a trainer or a probe can measure.
SIGNALS = frozenset(NAMES) | {
    "entropy/paired_delta",
    "grad/clipped_frac",
    "grad/norm",
    "kl/old",
    "kl/ref",
    "loss/llds",
    "loss/policy",
    "lr",
    PARTIAL_STEP,
}

TRANSFORMERS: Mapping[str, str] = {"loss": "loss/policy", "grad_norm": "grad/norm", "learning_rate": "lr"}

TRL: Mapping[str, str] = {
    **TRANSFORMERS,
    "policy_loss": "loss/policy",
    "llds_loss": "loss/llds",
    "reward": "reward/mean",
    "reward_std": "reward/std",
    "frac_reward_zero_std": "reward/zero_std_frac",
    "entropy": "entropy/mean",
    "kl": "kl/ref",
    "clip_ratio": "ratio/clip_frac",
    "clip_ratio/region_mean": "ratio/clip_frac",
    "clip_ratio/low_mean": "ratio/clip_low_frac",
    "clip_ratio/high_mean": "ratio/clip_high_frac",
    "completions/mean_length": "length/mean",
    "completion_length": "length/mean",
    "completions/clipped_ratio": "length/truncated_frac",
    "sampling/sampling_logp_difference/mean": "mismatch/logprob_abs",
    "tools/call_frequency": "tools/calls",
}

# The policy is compared with the one that sampled, not with the reference model.
TRL_ASYNC: Mapping[str, str] = {**TRL, "kl": "kl/old"}
# The KL divergence is that of whole responses, not of tokens.
TRL_KTO: Mapping[str, str] = {name: signal for name, signal in TRL.items() if name != "kl"}

VERL: Mapping[str, str] = {
    "critic/score/mean": "reward/mean",
    "actor/entropy": "entropy/mean",
    "actor/entropy_loss": "entropy/mean",
    "actor/grad_norm": "grad/norm",
    "actor/pg_loss": "loss/policy",
    "actor/llds_loss": "loss/llds",
    "actor/pg_clipfrac": "ratio/clip_frac",
    "actor/ppo_kl": "kl/old",
    "actor/kl_loss": "kl/ref",
    "actor/reward_kl_penalty": "kl/ref",
    "actor/lr": "lr",
    "response_length/mean": "length/mean",
    "response_length/clip_ratio": "length/truncated_frac",
    "tool_call_counts/mean": "tools/calls",
}

OPENRLHF: Mapping[str, str] = {
    "rollout/reward_mean": "reward/mean",
    "rollout/response_length_mean": "length/mean",
    "rollout/truncated_rate": "length/truncated_frac",
    "policy_loss": "loss/policy",
    "actor_grad_norm": "grad/norm",
    "actor_lr": "lr",
    "ppo_clip_ratio": "ratio/clip_frac",
    "ppo_kl": "kl/old",
    "kl": "kl/ref",
}

SKYRL: Mapping[str, str] = {
    "reward/avg_raw_reward": "reward/mean",
    "policy/policy_entropy": "entropy/mean",
    "policy/grad_norm": "grad/norm",
    "policy/raw_grad_norm": "grad/norm",
    "policy/policy_loss": "loss/policy",
    "policy/loss_metrics/clip_ratio": "ratio/clip_frac",
    "policy/ppo_clip_ratio": "ratio/clip_frac",
    "policy/policy_kl": "kl/ref",
    "policy/policy_lr": "lr",
    "policy/rollout_train_logprobs_abs_diff_mean": "mismatch/logprob_abs",
    "generate/avg_num_tokens": "length/mean",
}


def canonical(metrics: Mapping[str, object], names: Mapping[str, str], *, prefix: str) -> dict[str, Any]:
    """Return a trainer's numbers under canonical names, and all others under ``prefix/name``.

    A metric that is logged under a canonical name keeps it. A canonical number is kept even if it is NaN or infinite,
    because that is data; any other number only if it is finite, because a user's own metric may be NaN by design. A
    number that cannot be read, such as 10**400 or a tensor on a device, for which training would wait, is returned in a
    form that `log_step` counts.

    Args:
        metrics: Numbers by the trainer's name, or arrays of one; values that are no numbers are left out.
        names: Canonical names by the trainer's, one of the tables of this module.
        prefix: Put before names that the table does not hold.
    """
    numbers: dict[str, Any] = {}
    for name, value in metrics.items():
        # isinstance with an abstract class is slow, and nearly all values are floats.
        if type(value) is not float:
            if not isinstance(value, Real):
                value = _read_array(value)  # noqa: PLW2901
            if isinstance(value, bool) or not isinstance(value, Real | _Unread):
                continue
        known = names.get(name, name)
        found = known if known in SIGNALS else f"{prefix}/{name}"
        try:
            number = float(value)
        except Exception:  # noqa: BLE001 - a number of the user's may raise anything
            numbers[found] = value
            continue
        if known in SIGNALS or math.isfinite(number):
            numbers[found] = number
    return numbers


class _Unread:
    """Stands for a number that is not read; `log_step` counts it, and its log says why.

    Args:
        why: Why it is not read.
    """

    def __init__(self, why: str) -> None:
        self._why = why

    def __float__(self) -> float:
        raise TypeError(self._why)


def _read_array(value: Any) -> object:
    """Return the number in an array or a tensor of one element, and any other value as it is."""
    try:
        if not callable(getattr(value, "item", None)) or math.prod(value.shape) != 1:
            return value
        device = getattr(value, "device", "cpu")
        if hasattr(value, "full_tensor") or getattr(device, "type", device) != "cpu":
            return _Unread(f"training would wait for a tensor on {device}; log its item()")
        return value.item()
    except Exception as error:  # noqa: BLE001 - a value of the user's may raise anything
        return _Unread(describe_error(error))
