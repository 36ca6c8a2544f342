"""The search for a slow phase II: every hypothesis is a setting. The protocol is docs/experiments/search.md."""

from typing import Any

from trainer_hooks.reference.presets import PRESETS

__all__ = ["HYPOTHESES", "MORE_SEEDS", "PROMISING", "SEARCH_SEEDS"]

SEARCH_SEEDS = (0, 1, 2)
MORE_SEEDS = (3, 4)
PROMISING = ("slow-climb", "stubborn-3e-4", "stubborn-4e-4")
"""Settings with further seeds: two of the first three had a phase II, a further fall, a surge and a collapse."""

_SHARED: dict[str, Any] = {"held_out": 16, "probe_every": 25, "probe_optimiser": "run", "steps": 300}
_TEXT: dict[str, Any] = {"thought_words": 8, "context": 256, "max_action_tokens": 40, "warm_steps": 1200}
_STUBBORN = PRESETS["stubborn"] | {"steps": 600}

HYPOTHESES: dict[str, dict[str, Any]] = {
    name: _SHARED | changed
    for name, changed in {
        "text-retry": _TEXT | {"lr": 2e-4},
        "slow-climb": {"lr": 6e-4, "lr_warmup": 300, "steps": 400},
        "mid-climb": {"lr": 6e-4, "lr_warmup": 170, "probe_every": 0},
        "steady": {"lr": 1.5e-4, "steps": 400},
        "no-retry": {"lr": 4e-4, "retry": False, "max_grad_norm": 0.0},
        "stubborn": _STUBBORN | {"lr": 2e-4, "lr_warmup": 0},
        "stubborn-3e-4": PRESETS["constant"],
        "stubborn-4e-4": _STUBBORN | {"lr": 4e-4, "lr_warmup": 0},
        "stubborn-climb": _STUBBORN,
        "long-hot": {"lr": 2e-4, "max_actions": 6, "context": 208, "temperature": 1.25},
        "wide": {"lr": 1.5e-4, "width": 128},
        "loose-clip": {"lr": 2e-4, "clip": 0.5},
    }.items()
}  # fmt: skip
"""The changes of each hypothesis to the settings of `Config`."""
