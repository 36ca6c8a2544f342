"""The formats of logs in the order in which a file is tested, and what a log of each must hold to be found."""

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path

from monitor_server.importers.corpus import folder_name, name_without_ending
from monitor_server.importers.formats.console.console_log import ConsoleLog
from monitor_server.importers.formats.delimited import Delimited
from monitor_server.importers.formats.exported import ExportedJsonLines, ExportedParquet
from monitor_server.importers.formats.json_documents import JsonColumns, JsonList, TrainerState
from monitor_server.importers.formats.json_lines import JsonLines
from monitor_server.importers.formats.mlflow import MlflowDatabase
from monitor_server.importers.formats.notebook import Notebook
from monitor_server.importers.formats.parquet import Parquet
from monitor_server.importers.formats.tensorboard.event_file import EventFile
from monitor_server.importers.formats.trackio import TrackioDatabase
from monitor_server.importers.formats.wandb_file import WandbFile
from monitor_server.importers.protocol import Importer, ReadReport, RecordedLog
from monitor_server.importers.signal_names import number, signal_of

__all__ = ["IMPORTERS", "find_importer", "name_log", "names_a_signal"]

# In the order of the checks: formats that prove themselves first, text that might contain anything last.
IMPORTERS: tuple[Importer, ...] = (
    EventFile(),
    WandbFile(),
    TrackioDatabase(),
    MlflowDatabase(),
    ExportedParquet(),
    ExportedJsonLines(),
    Parquet(),
    TrainerState(),
    Notebook(),
    JsonColumns(),
    JsonLines(),
    JsonList(),
    Delimited(),
    ConsoleLog(),
)
# The first rows of a table or a console log in which a known signal must occur when a folder is searched.
PROBE_ROWS = 50
PROBE_BYTES = 8 << 20
# W&B's folder of a run.
_WANDB_FOLDER = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-\w+")


def find_importer(path: Path, beginning: bytes) -> Importer | None:
    """Return the first importer that recognises a file, or None.

    Args:
        path: The file.
        beginning: Its first bytes, decompressed.
    """
    return next((each for each in IMPORTERS if each.recognises(path, beginning)), None)


def names_a_signal(log: RecordedLog, keys: frozenset[str]) -> bool:
    """Whether one of the first rows of a log has a number of a known signal or of one of the user's keys."""
    report = ReadReport()
    for row in islice(log.read(report), PROBE_ROWS):
        if any((key in keys or signal_of(key) not in (None, "lr")) and number(row[key]) is not None for key in row):
            return True  # a learning rate alone is a configuration
        if report.bytes_read > PROBE_BYTES:
            break
    return False


def name_log(log: RecordedLog) -> RecordedLog:
    """Remove the ending from a name that comes from a file; a name from the log itself stays unchanged.

    The output of a run of W&B has the name of its folder.
    """
    of_run = folder_name(log.path.parent / "..")
    if log.name == log.path.name == "output.log" and _WANDB_FOLDER.fullmatch(of_run):
        return replace(log, name=of_run)
    return replace(log, name=name_without_ending(log.name)) if log.name == log.path.name else log
