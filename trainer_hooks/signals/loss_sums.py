"""Sums over the tokens of a policy loss, where workers compute the loss and a driver computes the signals.

Sums and counts, because they add up over microbatches and ranks where means of empty sets do not. Importing this module
loads no torch: plugins are imported in every process of a trainer.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NAMES", "compute_signals", "of_responses", "on_policy", "token_sums"]

NAMES = (
    "tokens",
    "log_ratio",
    "log_ratio_squares",
    "ratio",
    "ratio_squares",
    "kept_tokens",
    "lost_tokens",
    "kept_responses",
    "lost_responses",
    "bad_tokens",
)
# Where there is one update a rollout these are 1 and 0 by construction.
OFF_POLICY_ONLY = ("ratio/", "lld/", "kl/old")


def token_sums(old_logprobs: "Tensor", logprobs: "Tensor", advantages: "Tensor", mask: "Tensor") -> "Tensor":
    """Compute the sums named in `NAMES`, on the device.

    Tokens whose ln π_θ − ln π_old is NaN or infinite are in none but the last, which counts those where ln π_θ is.

    Args:
        old_logprobs: ln π_old, shape ``(B, T)``, nats.
        logprobs: ln π_θ, shape ``(B, T)``, nats.
        advantages: Shape ``(B, T)``; a response is kept where their mean over action tokens is ≥ 0.
        mask: Not 0 on action tokens, shape ``(B, T)``.

    Returns:
        Shape ``(10,)``, float.
    """
    import torch  # noqa: PLC0415 - see above

    actions, change = mask.bool(), logprobs.float() - old_logprobs.float()
    known = actions & change.isfinite()
    change = torch.where(known, change, 0.0)
    ratio = torch.where(known, change.clamp(-20, 20).exp(), 0.0)
    kept = known & (of_responses(advantages, actions) >= 0)[:, None]
    lost = torch.where(kept, -change, 0.0)
    found = (
        known.sum(),
        change.sum(),
        change.square().sum(),
        ratio.sum(),
        ratio.square().sum(),
        kept.sum(),
        (lost > 0).sum(),
        kept.any(dim=1).sum(),
        (lost.sum(dim=1) > 0).sum(),
        (actions & ~logprobs.isfinite()).sum(),
    )
    return torch.stack([value.float() for value in found])


def of_responses(advantages: "Tensor", mask: "Tensor") -> "Tensor":
    """Average token advantages over the action tokens of each response, shape ``(B,)``; the mask is boolean."""
    return advantages.masked_fill(~mask, 0.0).sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)


def on_policy(signals: Mapping[str, float]) -> dict[str, float]:
    """Return a step's signals without those that are constant by construction where there is one update a rollout."""
    return {name: value for name, value in signals.items() if not name.startswith(OFF_POLICY_ONLY)}


def compute_signals(sums: Mapping[str, float]) -> dict[str, float]:
    """Compute signals from sums over all microbatches and ranks; a common factor of the sums cancels."""
    bad = sums.get("bad_tokens", 0.0)
    # A whole number, because the factor may be below 1 where sums are averaged.
    signals = {"finite/bad_values": float(math.ceil(bad))} if bad > 0 else {}
    tokens = sums.get("tokens", 0.0)
    if not tokens > 0:
        return signals
    mean = sums["log_ratio"] / tokens
    # Sums in float32 are rounded: a variance may come out below 0, and a share above 1.
    signals |= {
        "ratio/log_var": max(sums["log_ratio_squares"] / tokens - mean**2, 0.0),
        "ratio/ess_frac": min(sums["ratio"] ** 2 / (tokens * sums["ratio_squares"]), 1.0),
    }
    for signal, part, whole in (
        ("lld/penalty_tokens_frac", "lost_tokens", "kept_tokens"),
        ("lld/gated_responses_frac", "lost_responses", "kept_responses"),
    ):
        if sums[whole] > 0:
            signals[signal] = sums[part] / sums[whole]
    return signals
