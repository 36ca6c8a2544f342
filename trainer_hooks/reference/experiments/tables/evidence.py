"""All tables about the mechanism that recorded runs of one regime give."""

from collections.abc import Sequence
from pathlib import Path

from trainer_hooks.reference.experiments.arms import ARMS, PROBE_ARMS
from trainer_hooks.reference.experiments.tables.accelerating_displacement import acceleration_table
from trainer_hooks.reference.experiments.tables.gwhes import (
    fall_by_gwhes_table,
    first_action_table,
    gwhes_action_table,
    gwhes_table,
)
from trainer_hooks.reference.experiments.tables.held_out_reward import eval_table
from trainer_hooks.reference.experiments.tables.paper import drop_table, paper_table, searches_table
from trainer_hooks.reference.experiments.tables.question_displacement import question_table

__all__ = ["evidence"]


def evidence(folder: Path, chosen: Sequence[str] | None = None) -> str:
    """Format each table that has a row, under its title.

    Args:
        folder: The recordings of one regime.
        chosen: The arms to show; by default the uncured runs, and all arms where the table compares them.
    """
    arms = chosen or ["grpo"]
    tables = {
        "GWHES (eq. 9) at the probes, by thirds of the way to the collapse": gwhes_table(folder, arms),
        "GWHES by action": gwhes_action_table(folder, chosen or ["grpo", *PROBE_ARMS]),
        "GWHES of the first action by group": first_action_table(folder, arms),
        "Falls by the sign of GWHES": fall_by_gwhes_table(folder, arms),
        "Displacement by question (Fig. 3)": question_table(folder, arms),
        "Accelerating displacement (Def. 5.1)": acceleration_table(folder, arms),
        "The gradient norm at the first fall of the reward (Fig. 7)": drop_table(folder, arms),
        "Held-out reward beside the paper's (Tables 1 and 2)": paper_table(folder),
        "Held-out reward": eval_table(folder, chosen or ARMS),
        "Valid searches a response (Fig. 9)": searches_table(folder, chosen or ARMS),
    }
    recorded = {title: text for title, text in tables.items() if text.count("\n") > 1}
    found = "\n\n".join(f"{title}:\n\n{text}" for title, text in recorded.items())
    return found or f"nothing that these tables show is recorded in {folder}; --out is the folder above the recordings"
