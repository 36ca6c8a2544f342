"""Settings in which people train and nothing dies: the healthy recordings of the detection benchmark (suite B)."""

from typing import Any

__all__ = ["HEALTHY", "SEEDS"]

_SHARED = {"retry": False, "lr": 1e-4, "minibatches": 4, "epochs": 1, "held_out": 12, "steps": 750}
_SMALL = {"questions_per_step": 4, "minibatches": 2, "held_out": 8}

HEALTHY: dict[str, dict[str, Any]] = {
    name: _SHARED | changed
    for name, changed in {
        "plain": {},
        "one-update": {"minibatches": 1, "lr": 3e-4},
        "eight-updates": _SMALL | {"minibatches": 4, "epochs": 2, "lr": 5e-5},
        "small-groups": {"group_size": 4, "held_out": 8},
        "large-groups": _SMALL | {"group_size": 16},
        "hot": _SMALL | {"temperature": 1.2},
        "cold": _SMALL | {"temperature": 0.8, "lr_warmup": 50},
        "kl-llds": _SMALL | {"lr": 2e-4, "kl": 0.005, "lambda_": 0.1},
        "other-world": _SMALL | {"entities": 48, "long_form": 0.0, "world_seed": 7, "clip": 0.3},
    }.items()
}
"""Nine settings, 750 steps each."""

SEEDS = {name: [100 + 3 * number + extra for extra in range(3)] for number, name in enumerate(HEALTHY)}
"""Three seeds a setting, none used twice: 27 runs, 20,250 steps."""
