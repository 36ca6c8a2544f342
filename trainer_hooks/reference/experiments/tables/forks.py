"""Forks of recorded runs: the measurements of each fork, the winner of each choice, and the cost in steps."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer_hooks.reference.experiments.rollback_runs import forks_path
from trainer_hooks.reference.experiments.tables.cells import format_signed
from trainer_hooks.reference.experiments.tables.markdown import markdown_table

__all__ = ["cost_table", "forks_table"]


def forks_table(folder: Path, arm: str = "fork") -> str:
    """Format a row for each fork of each run, in the order in which they were trained."""
    head = ["seed", "asked after step", "from step", "fork", "reward", "against unchanged"]
    head += ["ln p of correct ones, a token", "against unchanged", "entropy, a token", ""]
    rows = []
    for seed, times in _read(folder, arm).items():
        for forked in times:
            choice = forked["choice"]
            for score in choice["scores"]:
                mark = "goes on" if score["name"] == choice["winner"] else ""
                rows.append(
                    [
                        seed,
                        forked["asked_at"],
                        forked["begun_at"],
                        score["name"],
                        f"{score['reward']['mean']:.2f}",
                        _gain(score, "reward_gain", 2),
                        format_signed(score["displacement"]["mean"], 3),
                        _gain(score, "displacement_gain", 3),
                        format_signed(score["entropy"]["mean"], 2),
                        "diverged" if score["has_diverged"] else mark,
                    ]
                )
    return markdown_table(head, rows)


def cost_table(folder: Path, arm: str = "fork") -> str:
    """Format a row for each run: how often it was forked, its winners, and the steps trained beside its own."""
    rows = []
    for seed, times in _read(folder, arm).items():
        winners = ", ".join(f"{forked['choice']['winner']} at step {forked['asked_at']}" for forked in times)
        rows.append([seed, len(times), winners, sum(forked["extra_steps"] for forked in times)])
    return markdown_table(["seed", "forked", "winners", "steps beside the run"], rows)


def _read(folder: Path, arm: str) -> dict[int, list[dict[str, Any]]]:
    """Read the forks of every recorded run, by seed; a run that was never forked has none."""
    paths = {int(path.name.split("-seed")[1].split(".")[0]): path for path in folder.glob(f"{arm}-seed*.jsonl.gz")}
    found = {seed: forks_path(paths[seed]) for seed in sorted(paths)}
    return {seed: json.loads(path.read_text(encoding="utf-8")) if path.exists() else [] for seed, path in found.items()}


def _gain(score: Mapping[str, Any], name: str, digits: int) -> str:
    gain = score[name]
    if score["name"] == "unchanged" or math.isnan(gain["mean"]):
        return "–"
    mean, low, high = (format_signed(gain[part], digits) for part in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"
