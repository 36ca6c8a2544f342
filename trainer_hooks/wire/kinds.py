"""The kinds of alert that a trainer may be notified of; a test compares them with the collector's detectors."""

from typing import Final, Literal

__all__ = ["ALERT_KINDS", "Severity"]

Severity = Literal["info", "warning", "critical"]

ALERT_KINDS: Final = frozenset(
    {
        "advantage_order",
        "all_truncated",
        "attention_collapse",
        "clip_surge",
        "control_token_anomaly",
        "control_token_spike",
        "dead_environment",
        "death_spiral",
        "difficulty_shift",
        "entropy_collapse",
        "entropy_drift",
        "entropy_explosion",
        "equal_rewards",
        "frozen_ratio",
        "garbled_text",
        "gradient_explosion",
        "impossible_likelihood",
        "instrument_gap",
        "joint_departure",
        "kl_runaway",
        "learning_rate_rise",
        "length_collapse",
        "length_explosion",
        "likelihood_drift",
        "likelihood_stagnation",
        "loss_explosion",
        "mismatch_growth",
        "monitor_degraded",
        "non_finite",
        "off_policy_blowup",
        "plateau",
        "ratio_tail",
        "repetition",
        "reward_fall",
        "reward_hacking",
        "reward_signal_dead",
        "router_collapse",
        "run_collapsed",
        "sampler_gap",
        "sampler_mismatch",
        "tool_use_collapse",
        "truncation",
        "unmasked_feedback",
        "zero_rate",
    }
)
