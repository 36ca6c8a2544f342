"""Folders of recorded runs in a corpus: each has its rows in JSON lines and a meta.json beside them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from monitor_server.configuration_files.reading import read_bounded
from monitor_server.detection.protocol import Observation
from monitor_server.importers.formats.json_lines import read_json_lines
from monitor_server.importers.protocol import ReadReport, Row
from monitor_server.importers.signal_names import signals_of
from monitor_server.importers.source import MAX_DOCUMENT_BYTES
from monitor_server.importers.steps import Named, observations

__all__ = [
    "DATA_FILES",
    "name_without_ending",
    "read_aliases",
    "read_meta",
    "read_rows",
    "read_run",
    "run_name",
    "run_paths",
]

DATA_FILES = ("data.jsonl.gz", "data.jsonl")
ENDINGS = (".gz", ".bz2", ".xz", ".jsonl", ".json", ".csv", ".tsv", ".log", ".txt", ".out", ".parquet")


def run_name(path: Path) -> str:
    """Return the name of a run: the name of its folder, or that of its file without the format's ending."""
    return path.name if path.is_dir() else name_without_ending(path.name)


def run_paths(corpus: Path) -> list[Path]:
    """Return the run folders or the files of JSON lines in a corpus, in order of their names.

    A run is itself a corpus of one. Single files count only in a folder without run folders: beside run folders they
    contain something else, such as labels.

    Raises:
        FileNotFoundError: If it contains no run.
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
        meta = json.loads(read_bounded(path / "meta.json", longest=MAX_DOCUMENT_BYTES))
    except (ValueError, RecursionError):  # this includes unreadable files
        return {}
    return meta if isinstance(meta, dict) else {}


def read_aliases(path: Path) -> dict[str, str] | None:
    """Return the short names in the ``signals`` of a run folder's meta.json, each with the log's own key."""
    aliases = read_meta(path).get("signals")
    if not isinstance(aliases, dict):
        return None
    return {short: key for short, key in aliases.items() if isinstance(key, str)}


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
        named: Returns the numbers of a row under the wanted names; by default the canonical names.

    Raises:
        LogError: If the log cannot be read at all.
    """
    return observations(read_rows(run), read_aliases(run), named)


def name_without_ending(name: str) -> str:
    """Return a file's name without the endings that show its format."""
    shortened = name
    while shortened.lower().endswith(ENDINGS) and "." in shortened[1:]:
        shortened = shortened.rpartition(".")[0]
    return shortened or name
