"""Recording of one run: train to the last step, a JSON object a step under the canonical names, compressed.

A run that is cut goes on where it was: every few steps its state and its rows so far are put beside the recording,
which itself is there whole or not at all.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.experiments.fixed import FixedContexts
from trainer_hooks.reference.telemetry import numbers
from trainer_hooks.reference.train import Trainer
from trainer_hooks.reference.warm_start import warm_start

__all__ = ["Row", "read", "record"]

Row = Mapping[str, float]
"""A step's numbers by signal name, and ``step``."""

KEEP_EVERY = 50
"""Steps between two states: losing fewer than these costs less than writing them."""

DIGITS = 4
"""Significant digits of a recorded number: well under the noise of any signal, and half the bytes of all of them."""


def record(
    config: Config,
    path: Path,
    *,
    fixed: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Train one run to its end and write its telemetry to ``path`` (``.jsonl.gz``).

    Args:
        config: The run's settings.
        path: Where the recording goes; a cut run's state waits beside it as ``.part``.
        fixed: Also score the warm start's own correct responses at every step (`FixedContexts`).
        report: Takes a line of progress at every step.
    """
    model = warm_start(config, report=report)
    contexts = FixedContexts.sampled(config, model) if fixed else None
    trainer = Trainer(config, model)
    part = path.with_suffix(".part")
    rows = _resume(trainer, part)
    path.parent.mkdir(parents=True, exist_ok=True)
    while trainer.step_number < config.steps:
        result = trainer.step()
        row = numbers(result, clip=config.clip)
        if contexts is not None:
            row |= contexts.scores(trainer.model)
        rows.append({"step": result.step} | {name: float(f"{value:.{DIGITS}g}") for name, value in row.items()})
        report(f"{path.name.split('.jsonl')[0]} {result.step}/{config.steps}")
        if result.step % KEEP_EVERY == 0:
            _keep(trainer, rows, part)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    whole = path.with_suffix(".whole")
    # A compressed file without its time of writing: the same run gives the same bytes.
    whole.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    whole.replace(path)
    part.unlink(missing_ok=True)


def read(path: Path) -> list[dict[str, float]]:
    """Give a recording's rows in order."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(text) for text in file]


def _settings(config: Config) -> dict[str, str]:
    return {name: str(value) for name, value in asdict(config).items()}


def _keep(trainer: Trainer, rows: list[dict[str, float]], part: Path) -> None:
    unfinished = part.with_suffix(".partial")
    torch.save({"settings": _settings(trainer.config), "rows": rows} | {"trainer": trainer.state()}, unfinished)
    unfinished.replace(part)


def _resume(trainer: Trainer, part: Path) -> list[dict[str, float]]:
    """Bring the trainer to where a cut run of the same settings was, and give the rows that it had."""
    if not part.exists():
        return []
    kept: dict[str, Any] = torch.load(part, weights_only=True)
    if kept["settings"] != _settings(trainer.config):
        return []
    trainer.load_state(kept["trainer"])
    rows: list[dict[str, float]] = kept["rows"]
    return rows
