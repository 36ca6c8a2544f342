"""Runs with rollbacks: a regime that collapses, under a real collector whose verdict the trainer acts on.

The collector runs in another process, and its verdict arrives asynchronously. So the step after which a run is rolled
back depends on the machine, and may differ between two recordings.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import trainer_hooks
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.distributed import SINGLE_PROCESS, device_of
from trainer_hooks.reference.experiments.run_recording import Row, divergence_row, write
from trainer_hooks.reference.run.loop import Loop
from trainer_hooks.reference.run.task_choice import build_policy_and_environment
from trainer_hooks.reference.run.trainer import Trainer, TrainingError

__all__ = ["RESCUED_STEPS", "RESCUES", "forks_path", "rescue"]

_ROLLBACK: dict[str, Any] = {"on_acceleration": "rollback+llds", "checkpoint_every": 5}

RESCUES: dict[str, dict[str, Any]] = {
    "rollback-llds-tenth": _ROLLBACK | {"rollback_lr": 0.1},
    "rollback-llds": _ROLLBACK,
    "fork": {"on_acceleration": "fork", "checkpoint_every": 5},
}
"""The changes of each arm to the settings of a regime that collapses."""

RESCUED_STEPS = {"demo": 160, "stubborn": 1000}
"""Steps of a rescued run by preset: 1.7 times the median life of the twins, and four times."""


def rescue(config: Config, path: Path, *, report: Callable[[str], None] = lambda _: None) -> None:
    """Train one run under a separate collector and write every step that it took to ``path`` (``.jsonl.gz``).

    A step that was taken again after a rewind is there twice, with the number of its ``attempt``, from 1. If the run
    was forked, the results of the forks are in a file beside it (``.forks.json``). The recording of a run that diverges
    ends with `divergence_row`.

    Args:
        config: The run's settings, ``on_acceleration`` among them.
        path: The file of the recording, which is written atomically.
        report: Takes a line of progress every other step, and at each rewind.

    Raises:
        ValueError: If the model or its task cannot be used.
        TrainingError: If the collector does not start; the message holds its output.
    """
    with tempfile.TemporaryDirectory() as name, _collector(Path(name)) as url:
        folder = Path(name)
        log = folder / "log.jsonl"
        config = replace(config, url=url, log=log, checkpoints=folder / "checkpoints")
        device = device_of(config.device, SINGLE_PROCESS)
        trainer = Trainer(config, *build_policy_and_environment(config, device, report=report))
        settings = {setting: str(value) for setting, value in asdict(config).items()}
        with trainer_hooks.connect(url, config.project, config.run_name, settings, source="reference") as monitor:
            loop = Loop(config, trainer, monitor, report)
            has_diverged = False
            try:
                loop.run()
            except FloatingPointError as error:
                has_diverged = True
                report(f"{path.name.removesuffix('.jsonl.gz')} diverged: {error}")
        taken = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    if has_diverged:
        taken.append(divergence_row(taken))
    path.parent.mkdir(parents=True, exist_ok=True)
    if loop.forked:
        forks = [asdict(replace(forked, rows={}, alerts=())) for forked in loop.forked]
        forks_path(path).write_text(json.dumps(forks, indent=1) + "\n", encoding="utf-8")
    write(_number_attempts(taken), path)


def forks_path(path: Path) -> Path:
    """Return where the forks of a recording are."""
    return path.with_name(path.name.removesuffix(".jsonl.gz") + ".forks.json")


def _number_attempts(rows: Iterable[Row]) -> Iterator[Row]:
    """Number the attempts: a step number that does not increase begins another attempt."""
    attempt, last = 1, 0
    for row in rows:
        attempt += row["step"] <= last
        last = row["step"]
        yield row | {"attempt": attempt}


@contextmanager
def _collector(folder: Path) -> Iterator[str]:
    """Run a collector on a free port of this machine; return its address."""
    command = [sys.executable, "-m", "monitor_server", "serve", "--port", "0"]
    database = ["--database", f"sqlite:///{folder / 'rlvitals.db'}"]
    with subprocess.Popen([*command, *database], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            output = process.stdout.readline() if process.stdout else ""
            address = re.search(r"http://[\w.:]+", output)
            if address is None:
                raise TrainingError(f"the collector must print its address, got {output!r}; see its output above")
            yield address[0]
        finally:
            process.terminate()
