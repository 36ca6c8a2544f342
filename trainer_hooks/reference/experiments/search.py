"""The search for a slow phase II: every hypothesis as a setting, and what is read off its runs.

The protocol is docs/experiments/search.md.
"""

from pathlib import Path
from typing import Any

from trainer_hooks.reference.experiments.measures import collapse_step, drift, series, smoothed
from trainer_hooks.reference.experiments.table import recorded

__all__ = ["HYPOTHESES", "SEARCH_SEEDS", "search_table"]

SEARCH_SEEDS = (0, 1, 2)

_SHARED = {"held_out": 16, "probe_every": 25, "steps": 300}
_TEXT = {"thought_words": 8, "context": 256, "max_action_tokens": 40, "warm_steps": 1200}

HYPOTHESES: dict[str, dict[str, Any]] = {
    name: _SHARED | changed
    for name, changed in {
        "text-retry": _TEXT | {"lr": 2e-4},
        "slow-climb": {"lr": 6e-4, "lr_warmup": 300, "steps": 400},
        "steady": {"lr": 1.5e-4, "steps": 400},
        "no-retry": {"lr": 4e-4, "retry": False, "max_grad_norm": 0.0},
        "stubborn": {
            "lr": 2e-4, "retry": False, "long_form": 0.15,
            "questions_per_step": 4, "group_size": 16, "minibatches": 4, "epochs": 4,
        },
        "long-hot": {"lr": 2e-4, "max_actions": 6, "context": 208, "temperature": 1.25},
        "wide": {"lr": 1.5e-4, "width": 128},
        "loose-clip": {"lr": 2e-4, "clip": 0.5},
    }.items()
}  # fmt: skip
"""What each changes in the settings of `Config`."""

_HEADER = (
    "| setting | seed | steps | phase II | ln p of correct | displacement, summed | entropy, summed | reward "
    "| gradient surge | collapse | peak | final |"
)


def search_table(folder: Path) -> str:
    """Give a hypothesis and seed a row; changes over phase II are in nats a token, the paired ones summed over it."""
    rows = [_HEADER, "|---" * _HEADER.count(" | ") + "|---|"]
    for name in HYPOTHESES:
        for seed, run in recorded(folder, name).items():
            rewards = series(run, "reward/mean")
            found = drift(run)
            averages = smoothed(rewards)
            phase = (
                f"{found.first_step} to {found.last_step} | {found.likelihood:+.2f} | {found.displacement:+.2f} "
                f"| {found.entropy:+.2f} | {found.reward:+.2f} | {found.surge:.1f}"
                if found
                else "none | | | | | "
            )
            rows.append(
                f"| {name} | {seed} | {len(run)} | {phase} | {collapse_step(rewards) or '–'} "
                f"| {max(averages):.2f} | {averages[-1]:.2f} |"
            )
    return "\n".join(rows)
