"""Folders that are a run as a whole: run folders, MLflow's and W&B's runs, and the checkpoints of a Trainer."""

import re
from dataclasses import replace
from pathlib import Path

from monitor_server.importers.corpus import DATA_FILES, folder_name, read_aliases
from monitor_server.importers.formats.console.console_log import ConsoleLog
from monitor_server.importers.formats.json_documents import TrainerState
from monitor_server.importers.formats.json_lines import read_json_lines
from monitor_server.importers.formats.mlflow import is_mlflow_run, mlflow_run
from monitor_server.importers.formats.wandb_file import WandbFile
from monitor_server.importers.protocol import LogError, ReadReport, RecordedLog
from monitor_server.importers.search.known_formats import names_a_signal
from monitor_server.importers.search.unreadable_files import PassedOver
from monitor_server.importers.source import head

__all__ = ["folder_run", "leave_old_checkpoints"]

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def folder_run(folder: Path) -> RecordedLog | None:
    """Return the run that a folder forms as a whole."""
    data = next((folder / name for name in DATA_FILES if (folder / name).is_file()), None)
    if data is not None:
        return RecordedLog(
            name=folder_name(folder),
            path=folder,
            format="run folder",
            read=lambda report: read_json_lines(data, report),
            aliases=read_aliases(folder),
        )
    if is_mlflow_run(folder):
        return mlflow_run(folder)
    return _wandb_run(folder)


def _wandb_run(folder: Path) -> RecordedLog | None:
    """Return the run of one of W&B's folders: its run file, or its printed output if the run file has no row.

    W&B writes rows some steps late, so that a run that was killed early has none. A folder without a run file is
    searched.
    """
    stored = sorted(path for path in folder.glob("*.wandb") if path.is_file())
    if not stored:
        return None
    is_whole = WandbFile().recognises(stored[0], head(stored[0]))
    run = next(WandbFile().logs(stored[0])) if is_whole else None
    output = folder / "files" / "output.log"
    if not output.is_file() or (run is not None and next(run.read(ReadReport()), None) is not None):
        return run
    printed = replace(next(ConsoleLog().logs(output)), name=folder_name(folder) if run is None else run.name)
    return printed if run is None or names_a_signal(printed, frozenset()) else run


def leave_old_checkpoints(folders: list[Path], files: list[Path], passed_over: PassedOver) -> list[Path]:
    """Leave out all checkpoints but the newest, which has all history; beside a trainer_state.json, leave out all.

    The history is the last file of a checkpoint that is saved. A checkpoint during which the trainer ended lacks it.
    """
    checkpoints = [path for path in folders if _CHECKPOINT.fullmatch(path.name)]
    others = [path for path in folders if path not in checkpoints]
    if any(path.name == "trainer_state.json" for path in files):
        return others
    checkpoints.sort(key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    newest = next(filter(_has_history, checkpoints), None)
    if newest is None:
        return others + checkpoints[:1]
    if newest != checkpoints[0]:
        passed_over(
            f"{checkpoints[0]} was passed over: it has no readable trainer_state.json, so the run ends with {newest}"
        )
    return [*others, newest]


def _has_history(checkpoint: Path) -> bool:
    state = checkpoint / "trainer_state.json"
    if not TrainerState().recognises(state, head(state)):
        return False
    (log,) = TrainerState().logs(state)
    try:
        return next(log.read(ReadReport()), None) is not None  # a full disk may have cut it within the first row
    except LogError:
        return False
