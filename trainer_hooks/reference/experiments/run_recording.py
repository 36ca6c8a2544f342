"""Recording of one run: train to the last step, a JSON object a step under the canonical names, compressed.

An interrupted run continues from its newest kept state: every few steps its state and its rows so far are written
beside the recording, which itself is written atomically.
"""

import gzip
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import torch

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.distributed import SINGLE_PROCESS, device_of
from trainer_hooks.reference.experiments.fixed_contexts import FixedContexts
from trainer_hooks.reference.experiments.measures import collapse_step, series
from trainer_hooks.reference.run.task_choice import build_policy_and_environment
from trainer_hooks.reference.run.telemetry import numbers
from trainer_hooks.reference.run.trainer import StepResult, Trainer
from trainer_hooks.reference.state_files import write_whole
from trainer_hooks.signals import FamiliarTokens

__all__ = ["Row", "divergence_row", "read", "record", "write"]

Row = dict[str, Any]
"""A step's numbers by signal name, and ``step``; a step with a probe also has the lists ``probe/…by_question``."""

KEEP_EVERY = 25
"""Steps between two kept states: an interruption loses fewer steps than this."""

DIGITS = 4
"""Significant digits of a recorded number: well under the noise of any signal, and half the bytes of all of them."""


def record(
    config: Config,
    path: Path,
    *,
    after_collapse: int | None = None,
    fixed: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Train one run to its end and write its telemetry to ``path`` (``.jsonl.gz``).

    The recording of a run that diverges ends with `divergence_row`.

    Args:
        config: The run's settings.
        path: The file of the recording; the state of an interrupted run is beside it as ``.part``.
        after_collapse: Stop a run this many steps after its collapse; None trains it to the last step.
        fixed: Also score the first policy's own correct responses at every step (`FixedContexts`).
        report: Takes a line of progress at every step.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    device = device_of(config.device, SINGLE_PROCESS)
    model, environment = build_policy_and_environment(config, device, report=report)
    batch = config.questions_per_step * config.group_size
    contexts = FixedContexts.sample(environment, model, batch=batch) if fixed else None
    trainer = Trainer(config, model, environment)
    part = path.with_suffix(".part")
    familiar = FamiliarTokens()
    rows = _resume(trainer, familiar, part)
    while trainer.step_number < config.steps and not _is_finished(rows, after_collapse):
        try:
            row = _row(trainer.step(), config, familiar)
        except FloatingPointError as error:
            rows.append(divergence_row(rows))
            report(f"{path.name.removesuffix('.jsonl.gz')} diverged: {error}")
            break
        if contexts is not None:
            row |= contexts.scores(model)
        rows.append(_round(row))
        report(f"{path.name.removesuffix('.jsonl.gz')} {trainer.step_number}/{config.steps}")
        if trainer.step_number % KEEP_EVERY == 0:
            _keep(trainer, familiar, rows, part)
    write(rows, path)
    part.unlink(missing_ok=True)


def divergence_row(rows: Sequence[Row]) -> Row:
    """Return the row of the step at which the weights gave no finite probabilities any more: its reward is NaN."""
    return {"step": rows[-1]["step"] + 1 if rows else 1, "reward/mean": math.nan}


def write(rows: Iterable[Row], path: Path) -> None:
    """Write a recording: a row a line, numbers rounded, written atomically."""
    text = "".join(json.dumps(_round(row)) + "\n" for row in rows)
    whole = path.with_suffix(".whole")
    # The compressed file has no time of writing, so that the same run gives the same bytes.
    whole.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    whole.replace(path)


def read(path: Path) -> list[Row]:
    """Read a recording's rows in order."""
    return [_decode(text) for text in gzip.decompress(path.read_bytes()).splitlines()]


def _decode(text: bytes) -> Row:
    try:
        row: Row = msgspec.json.decode(text)
    except msgspec.DecodeError:  # NaN and infinities, which only Python's own decoder reads
        row = json.loads(text)
    return row


def _row(result: StepResult, config: Config, familiar: FamiliarTokens) -> Row:
    row: Row = {"step": result.step} | numbers(result, clip=config.reported_clip, familiar=familiar)
    return row | _probed_questions(result)


def _probed_questions(result: StepResult) -> Row:
    """Return the probes of a step as lists over its questions: Δ(x) by multiplier, and G."""
    probes = list(result.probes.values())
    if not probes:
        return {}
    lists: Row = {
        "probe/by_question" + ("" if number == 0 else f"_x{multiplier:g}"): [
            probe.displacement[multiplier] for probe in probes
        ]
        for number, multiplier in enumerate(probes[0].displacement)
    }
    return lists | {
        "probe/gwhes_by_question": [probe.gwhes for probe in probes],
        "probe/gwhes_action0_by_question": [probe.gwhes_by_action[0] for probe in probes if probe.gwhes_by_action],
    }


def _round(row: Row) -> Row:
    return {name: _short(value) for name, value in row.items()}


def _short(value: Any) -> Any:  # noqa: ANN401 - a number or a list of them
    if isinstance(value, list):
        return [_short(item) for item in value]
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")


def _is_finished(rows: list[Row], after_collapse: int | None) -> bool:
    if after_collapse is None:
        return False
    collapse = collapse_step(series(rows, "reward/mean"))
    return collapse is not None and len(rows) >= collapse + after_collapse


def _settings(config: Config) -> dict[str, str]:
    return {name: str(value) for name, value in asdict(config).items()}


def _keep(trainer: Trainer, familiar: FamiliarTokens, rows: list[Row], part: Path) -> None:
    kept = {"rows": rows, "trainer": trainer.state(), "familiar": familiar.state()}
    write_whole(kept | {"settings": _settings(trainer.config)}, part)


def _resume(trainer: Trainer, familiar: FamiliarTokens, part: Path) -> list[Row]:
    """Restore the trainer of an interrupted run of the same settings, and return its rows."""
    if not part.exists():
        return []
    device = next(trainer.model.parameters()).device
    kept: dict[str, Any] = torch.load(part, weights_only=True, map_location=device)
    # A state of an earlier version lacks settings that it did not have; their defaults are what it did.
    if _settings(Config()) | kept["settings"] != _settings(trainer.config):
        return []
    trainer.load_state(kept["trainer"])
    if "familiar" in kept:  # a state that an earlier version kept lacks it
        familiar.load_state(kept["familiar"])
    rows: list[Row] = kept["rows"]
    return rows
