"""Folders of finished runs: one folder a run, with ``data.jsonl.gz`` (or ``.jsonl``) and perhaps ``meta.json``.

Rows become observations: rows of the same step are one step, the first value of a signal standing; a step that goes
back starts a new attempt; rows without a whole step are counted.
"""

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from monitor_server.detection.protocol import Observation
from monitor_server.importers.keys import STEP_KEYS, signals_of

__all__ = ["is_run", "observations", "read_meta", "read_rows", "read_run", "run_folders"]

DATA_FILES = ("data.jsonl.gz", "data.jsonl")


def is_run(folder: Path) -> bool:
    """Tell whether a folder holds a run."""
    return any((folder / name).is_file() for name in DATA_FILES)


def run_folders(corpus: Path) -> list[Path]:
    """Give the runs of a corpus in order of their names; a folder that is a run itself is a corpus of one.

    Raises:
        FileNotFoundError: If there is no run in it.
    """
    found = [corpus] if is_run(corpus) else sorted(child for child in corpus.glob("*") if is_run(child))
    if not found:
        raise FileNotFoundError(f"{corpus} must hold run folders with {' or '.join(DATA_FILES)}, found none")
    return found


def read_meta(folder: Path) -> Mapping[str, Any]:
    """Give a run's meta.json; nothing if it has none or if it cannot be read, for the rows speak for themselves."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
    except (OSError, ValueError):
        return {}
    return meta if isinstance(meta, dict) else {}


def read_rows(folder: Path) -> Iterator[Mapping[str, object]]:
    """Give a run's logged rows; a line that is not a JSON object is passed over, as is what follows a damaged place.

    Raises:
        OSError: If the log cannot be read at all.
    """
    path = next(folder / name for name in DATA_FILES if (folder / name).is_file())
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", errors="replace") as lines:
            for line in lines:
                row = _parsed(line)
                if row is not None:
                    yield row
    except (EOFError, zlib.error):
        return
    except OSError as error:
        raise OSError(f"{path} must be a readable log: {error}; mend it or take it out of the folder") from error


def read_run(folder: Path) -> list[Observation]:
    """Give the steps of a run under canonical names, with the help of its meta.json.

    Raises:
        OSError: If the log cannot be read at all.
    """
    fallback = read_meta(folder).get("signals")
    return observations(read_rows(folder), fallback if isinstance(fallback, dict) else None)


def observations(rows: Iterable[Mapping[str, object]], fallback: Mapping[str, str] | None = None) -> list[Observation]:
    """Give the steps of a run under canonical names, in the order logged."""
    steps: list[Observation] = []
    attempt = 1
    for number, row in enumerate(rows):
        step = _step(row, number)
        signals = signals_of(row, fallback)
        if steps and step == steps[-1].step:
            steps[-1] = Observation(step=step, attempt=attempt, signals=signals | dict(steps[-1].signals))
            continue
        if steps and step < steps[-1].step:
            attempt += 1
        steps.append(Observation(step=step, attempt=attempt, signals=signals))
    return steps


def _parsed(line: str) -> Mapping[str, object] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _step(row: Mapping[str, object], number: int) -> int:
    for key in STEP_KEYS:
        value = row.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value % 1 == 0:
            return int(value)
    return number
