"""Ordinary settings in which runs stay healthy: the healthy recordings of the detection benchmark (suite B)."""

from pathlib import Path
from statistics import fmean
from typing import Any

from trainer_hooks.reference.experiments.measures import collapse_step, rewards_of, series, stayed_healthy
from trainer_hooks.reference.experiments.tables.cells import mean_of_known
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["HEALTHY", "HEALTHY_SEEDS", "healthy_table"]

_SHARED: dict[str, Any] = {"retry": False, "lr": 1e-4, "minibatches": 4, "epochs": 1, "held_out": 12, "steps": 750}
_SMALL: dict[str, Any] = {"questions_per_step": 4, "minibatches": 2, "held_out": 8}

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
        "kl-llds": _SMALL | {"lr": 2e-4, "kl": 0.005, "method": "llds"},
        "other-world": _SMALL | {"entities": 48, "long_form": 0.0, "world_seed": 7, "clip": 0.3},
    }.items()
}
"""Nine settings, 750 steps each."""

HEALTHY_SEEDS = {name: [100 + 3 * number + extra for extra in range(3)] for number, name in enumerate(HEALTHY)}
"""Three seeds a setting, none used twice: 27 runs, 20,250 steps."""


def healthy_table(folder: Path) -> str:
    """Format a row for each setting and seed: first, best and last rewards, and whether it stayed healthy."""
    head = [
        "setting",
        "seed",
        "steps",
        "reward: first 50",
        "best 50",
        "last 50",
        "entropy: first 50",
        "last 50",
        "healthy",
    ]
    rows = []
    for name in HEALTHY:
        for seed, run in read_runs(folder, name).items():
            recorded, rewards, entropies = series(run, "reward/mean"), rewards_of(run), series(run, "entropy/mean")
            best = max(fmean(rewards[at : at + 50]) for at in range(max(1, len(rewards) - 49)))
            collapse = collapse_step(recorded)
            answer = "yes" if stayed_healthy(recorded) else f"no, collapsed at {collapse}" if collapse else "no, sagged"
            stretches = (rewards[:50], [best], rewards[-50:], entropies[:50], entropies[-50:])
            rows.append([name, seed, len(run), *(mean_of_known(stretch, ".2f") for stretch in stretches), answer])
    return markdown_table(head, rows)
