"""Finds the runs in files and folders, and turns their rows into steps.

Rows become observations: rows of the same step are one step, the first value of a signal standing; a step that goes
back starts a new attempt; rows without a whole step are counted.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from monitor_server.detection.protocol import Observation
from monitor_server.importers.formats.console import ConsoleLog
from monitor_server.importers.formats.delimited import Delimited
from monitor_server.importers.formats.json_documents import JsonColumns, JsonList, TrainerState
from monitor_server.importers.formats.json_lines import JsonLines, read_json_lines
from monitor_server.importers.formats.mlflow import MlflowDatabase, is_mlflow_run, mlflow_run
from monitor_server.importers.formats.notebook import Notebook
from monitor_server.importers.formats.parquet import Parquet
from monitor_server.importers.formats.tensorboard import EventFile, event_files
from monitor_server.importers.formats.trackio import TrackioDatabase
from monitor_server.importers.formats.wandb_file import WandbFile
from monitor_server.importers.keys import STEP_KEYS, number, signal_of, signals_of
from monitor_server.importers.protocol import Importer, Log, LogError, ReadReport, Row
from monitor_server.importers.source import head

__all__ = [
    "IMPORTERS",
    "find_logs",
    "observations",
    "observe",
    "read_meta",
    "read_rows",
    "read_run",
    "run_name",
    "run_paths",
]

# In the order asked: formats that prove themselves first, text that might hold anything last.
IMPORTERS: tuple[Importer, ...] = (
    EventFile(),
    WandbFile(),
    TrackioDatabase(),
    MlflowDatabase(),
    Parquet(),
    TrainerState(),
    Notebook(),
    JsonColumns(),
    JsonLines(),
    JsonList(),
    Delimited(),
    ConsoleLog(),
)
DATA_FILES = ("data.jsonl.gz", "data.jsonl")
MAX_STEP = 1 << 53
# Bounds of a search through folders.
MAX_DEPTH = 8
MAX_ENTRIES = 100_000
# Rows of a table or a console log in which a known signal must stand, where a folder is searched.
PROBE_ROWS = 50
PROBE_BYTES = 8 << 20
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_ENDINGS = (".gz", ".bz2", ".xz", ".jsonl", ".json", ".csv", ".tsv", ".log", ".txt", ".out", ".parquet")

Named = Callable[[Mapping[str, object], Mapping[str, str] | None], dict[str, float]]


def find_logs(paths: Iterable[Path], keys: Sequence[str] = ()) -> list[Log]:
    """Return the runs in files and folders, those of a folder in the order of their names.

    A file that is named is read in the format that its content shows. A folder is searched; of the files in it whose
    content proves no format (tables, text), those count that name a known signal early on.

    Args:
        paths: Files and folders.
        keys: The user's own keys for signals, which count as known.

    Raises:
        LogError: If a path does not exist, a file cannot be read, or a folder holds no run.
    """
    found: list[Log] = []
    for path in paths:
        if not path.exists():
            raise LogError(f"{path} must be a log or a folder of logs; it does not exist")
        if path.is_dir():
            logs = _unique(list(_in_folder(path, frozenset(keys))))
            if not logs:
                raise LogError(f"{path} must hold a log in a known format; found none (formats: docs/importers.md)")
        else:
            logs = _in_file(path)
        found += logs
    return _unique(found)


def _in_file(path: Path) -> list[Log]:
    beginning = head(path)
    for importer in IMPORTERS:
        if importer.recognises(path, beginning):
            return [replace(log, name=_without_ending(log.name)) for log in importer.logs(path)]
    if not path.is_file():
        raise LogError(f"{path} must be a readable log: it is no regular file")
    reason = "it is empty" if not beginning else f"its content is in no known format (it begins {beginning[:12]!r})"
    raise LogError(f"{path} must be a log: {reason}; formats: docs/importers.md")


def _in_folder(folder: Path, keys: frozenset[str]) -> Iterator[Log]:
    """Yield the runs in a folder; symbolic links are not followed."""
    entries = 0
    waiting = [(folder, 0)]
    while waiting:
        current, depth = waiting.pop(0)
        whole = _folder_run(current)
        if whole is not None:
            yield whole
            continue
        children = _children(current)
        entries += len(children)
        files = [child for child in children if child.is_file()]
        folders = [child for child in children if child.is_dir()]
        yield from _files_in(current, files, keys)
        if depth < MAX_DEPTH and entries < MAX_ENTRIES:
            waiting += [(child, depth + 1) for child in _newest_checkpoint(folders, files)]


def _children(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as scanned:
            names = sorted(entry.name for entry in islice(scanned, MAX_ENTRIES) if not entry.is_symlink())
    except OSError:
        return []
    return [folder / name for name in names if not name.startswith(".")]


def _newest_checkpoint(folders: list[Path], files: list[Path]) -> list[Path]:
    """Leave out all checkpoints but the newest, which has the history of all, or all beside a trainer_state.json."""
    checkpoints = [path for path in folders if _CHECKPOINT.fullmatch(path.name)]
    others = [path for path in folders if path not in checkpoints]
    if any(path.name == "trainer_state.json" for path in files):
        return others
    return others + sorted(checkpoints, key=lambda path: int(path.name.rpartition("-")[2]))[-1:]


def _folder_run(folder: Path) -> Log | None:
    """Return the run that a folder is as a whole."""
    data = next((folder / name for name in DATA_FILES if (folder / name).is_file()), None)
    if data is not None:
        aliases = read_meta(folder).get("signals")
        return Log(
            name=folder.name,
            path=folder,
            format="run folder",
            read=lambda report: read_json_lines(data, report),
            aliases=aliases if isinstance(aliases, dict) else None,
        )
    if is_mlflow_run(folder):
        return mlflow_run(folder)
    stored = sorted(path for path in folder.glob("*.wandb") if path.is_file())
    output = folder / "files" / "output.log"
    if stored and WandbFile().recognises(stored[0], head(stored[0])):
        return next(WandbFile().logs(stored[0]))
    if stored and output.is_file():
        return replace(next(ConsoleLog().logs(output)), name=folder.name)
    return None


def _files_in(folder: Path, files: list[Path], keys: frozenset[str]) -> Iterator[Log]:
    events: list[Path] = []
    for path in files:
        if path.name == "meta.json":
            continue
        beginning = head(path)
        importer = next((each for each in IMPORTERS if each.recognises(path, beginning)), None)
        if isinstance(importer, EventFile):
            events.append(path)
        elif importer is not None:
            try:
                for log in importer.logs(path):
                    if importer.is_specific or _names_a_signal(log, keys):
                        yield replace(log, name=_without_ending(log.name))
            except LogError:  # it is of a known format and holds no run
                continue
    if events:
        yield from event_files(folder.absolute().name, events)


def _names_a_signal(log: Log, keys: frozenset[str]) -> bool:
    report = ReadReport()
    try:
        for row in islice(log.read(report), PROBE_ROWS):
            if any((key in keys or signal_of(key) not in (None, "lr")) and number(row[key]) is not None for key in row):
                return True  # a learning rate alone is a configuration
            if report.bytes_read > PROBE_BYTES:
                break
    except LogError:
        return False
    return False


def _unique(logs: Sequence[Log]) -> list[Log]:
    """Number the names that several runs share."""
    taken: dict[str, int] = {}
    named: list[Log] = []
    for log in logs:
        count = taken[log.name] = taken.get(log.name, 0) + 1
        named.append(log if count == 1 else replace(log, name=f"{log.name}-{count}"))
    return named


def _without_ending(name: str) -> str:
    """Return a file's name without the endings that tell its format."""
    shortened = name
    while shortened.lower().endswith(_ENDINGS) and "." in shortened[1:]:
        shortened = shortened.rpartition(".")[0]
    return shortened or name


def run_name(path: Path) -> str:
    """Return the name of a run: its folder's name as it stands, or its file's name without the format's ending."""
    return path.name if path.is_dir() else _without_ending(path.name)


def run_paths(corpus: Path) -> list[Path]:
    """Return the run folders or the files of JSON lines in a corpus, in order of their names.

    What is a run itself is a corpus of one. Files count in a folder without run folders: beside those they hold
    something else, such as labels.

    Raises:
        FileNotFoundError: If there is no run in it.
    """
    found = [corpus] if _is_run(corpus) else sorted(child for child in corpus.glob("*") if _is_run(child))
    found = [path for path in found if path.is_dir()] or found
    if not found:
        raise FileNotFoundError(
            f"{corpus} must be a log of JSON lines (.jsonl, .jsonl.gz), a folder of them, or hold run folders with "
            f"{' or '.join(DATA_FILES)}; found none"
        )
    return found


def _is_run(path: Path) -> bool:
    is_log = path.name.endswith((".jsonl", ".jsonl.gz")) and path.is_file()
    return is_log or any((path / name).is_file() for name in DATA_FILES)


def read_meta(path: Path) -> Mapping[str, Any]:
    """Return a run folder's meta.json; an empty mapping if it has none or if it cannot be read."""
    try:
        meta = json.loads((path / "meta.json").read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}


def read_rows(run: Path, report: ReadReport | None = None) -> Iterator[Row]:
    """Yield the rows of a run folder or of a file of JSON lines.

    Raises:
        LogError: If the log cannot be read at all.
    """
    path = run if run.is_file() else next(run / name for name in DATA_FILES if (run / name).is_file())
    return read_json_lines(path, report or ReadReport())


def read_run(run: Path, named: Named = signals_of) -> list[Observation]:
    """Return the steps of a run folder or of a file of JSON lines, with the help of its meta.json.

    Args:
        run: Its file or folder.
        named: Gives a row's numbers under the names wanted; the canonical ones as it is.

    Raises:
        LogError: If the log cannot be read at all.
    """
    aliases = read_meta(run).get("signals")
    return observations(read_rows(run), aliases if isinstance(aliases, dict) else None, named)


def observations(
    rows: Iterable[Row], fallback: Mapping[str, str] | None = None, named: Named = signals_of
) -> list[Observation]:
    """Return the steps of a run as observations, in the order logged."""
    return list(observe(rows, lambda row: named(row, fallback)))


def observe(rows: Iterable[Row], named: Callable[[Row], dict[str, float]]) -> Iterator[Observation]:
    """Yield the steps of a run as observations, in the order logged; only one step is held in memory."""
    held: Observation | None = None
    attempt = 1
    for place, row in enumerate(rows):
        step = _step(row, place)
        signals = named(row)
        if held is not None and step == held.step:
            held = replace(held, signals=signals | dict(held.signals))
            continue
        if held is not None:
            yield held
            attempt += step < held.step
        held = Observation(step=step, attempt=attempt, signals=signals, time=number(row.get("_timestamp")))
    if held is not None:
        yield held


def _step(row: Row, place: int) -> int:
    for key in STEP_KEYS:
        value = row.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if abs(value) < MAX_STEP and value % 1 == 0:  # NaN and infinity are not below it
            return int(value)
    return place
