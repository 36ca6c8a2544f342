"""The arms of the experiments: what each changes in the settings of a preset."""

from typing import Any

__all__ = ["ARMS", "SEEDS"]

SEEDS = (0, 1, 2, 3, 4)

_LLDS = {"lambda_": 0.1}

ARMS: dict[str, dict[str, Any]] = {
    "grpo": {},
    "llds-0.01": {"lambda_": 0.01},
    "llds-0.1": _LLDS,
    "llds-0.1-action": _LLDS | {"gate": "action"},
    "lld-0.1": _LLDS | {"gate": "none"},
    "llds-ma-0.1": _LLDS | {"mask_answer": True},
    "nthr": {"nthr": True},
    "kl-0.01": {"kl": 0.01},
    "placebo-0.1": {"placebo": 0.1},
    "low-lr": {"lr": 3e-4, "lr_warmup": 50},
    "no-retry": {"retry": False},
    # Sizes and warm starts (Fig. 6). The stronger warm start stands where the paper has an instruct model.
    "grpo-narrow": {"width": 48},
    "llds-narrow": _LLDS | {"width": 48},
    "grpo-wide": {"width": 96},
    "llds-wide": _LLDS | {"width": 96},
    "grpo-strong": {"warm_steps": 1800},
    "llds-strong": _LLDS | {"warm_steps": 1800},
    # With the probe of eq. 3: it puts everything back, so this is the arm `grpo` to the last bit (Fig. 3).
    "grpo-probed": {"probe_every": 5},
}
"""What each arm changes in the demo's settings."""
