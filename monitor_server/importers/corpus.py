"""Folders of recorded runs in a corpus: each has its rows in JSON lines and a meta.json beside them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monitor_server.configuration_files.reading import read_bounded
from monitor_server.importers.source import MAX_DOCUMENT_BYTES

__all__ = ["DATA_FILES", "ENDINGS", "folder_name", "name_without_ending", "read_aliases", "read_meta"]

DATA_FILES = ("data.jsonl.gz", "data.jsonl")
ENDINGS = (".gz", ".bz2", ".xz", ".jsonl", ".json", ".csv", ".tsv", ".log", ".txt", ".out", ".parquet")


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


def folder_name(folder: Path) -> str:
    """Return the name of a folder, also of one that is given as ``.`` or ``..``; a symbolic link has its own name."""
    return os.path.basename(os.path.abspath(folder))  # noqa: PTH100, PTH119 - `resolve` follows links


def name_without_ending(name: str) -> str:
    """Return a file's name without the endings that show its format."""
    shortened = name
    while shortened.lower().endswith(ENDINGS) and "." in shortened[1:]:
        shortened = shortened.rpartition(".")[0]
    return shortened or name
