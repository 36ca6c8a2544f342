"""Logs of finished runs: a file of JSON lines a run, or a folder with ``data.jsonl.gz`` and perhaps ``meta.json``.

Rows become observations: rows of the same step are one step, the first value of a signal standing; a step that goes
back starts a new attempt; rows without a whole step are counted.
"""

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from monitor_server.detection.protocol import Observation
from monitor_server.importers.keys import STEP_KEYS, signals_of

__all__ = ["is_run", "observations", "read_meta", "read_rows", "read_run", "run_name", "run_paths"]

DATA_FILES = ("data.jsonl.gz", "data.jsonl")

Named = Callable[[Mapping[str, object], Mapping[str, str] | None], dict[str, float]]


def is_run(path: Path) -> bool:
    """Tell whether a file or a folder holds a run."""
    return _is_log(path) or any((path / name).is_file() for name in DATA_FILES)


def _is_log(path: Path) -> bool:
    return path.name.endswith((".jsonl", ".jsonl.gz")) and path.is_file()


def run_name(path: Path) -> str:
    """Return the name of a run: its folder's name as it stands, or its file's name without the format's ending."""
    return path.name if path.is_dir() else path.name.removesuffix(".gz").removesuffix(".jsonl")


def run_paths(corpus: Path) -> list[Path]:
    """Give the runs of a corpus in order of their names; what is a run itself is a corpus of one.

    Files count as runs in a folder without run folders: beside those they hold something else, such as labels.

    Raises:
        FileNotFoundError: If there is no run in it.
    """
    found = [corpus] if is_run(corpus) else sorted(child for child in corpus.glob("*") if is_run(child))
    found = [path for path in found if path.is_dir()] or found
    if not found:
        raise FileNotFoundError(
            f"{corpus} must be a log of JSON lines (.jsonl, .jsonl.gz), a folder of them, or hold run folders with "
            f"{' or '.join(DATA_FILES)}; found none"
        )
    return found


def read_meta(path: Path) -> Mapping[str, Any]:
    """Give a run's meta.json; nothing if it has none or if it cannot be read, for the rows speak for themselves."""
    try:
        meta = json.loads((path / "meta.json").read_text())
    except (OSError, ValueError):
        return {}
    return meta if isinstance(meta, dict) else {}


def read_rows(run: Path) -> Iterator[Mapping[str, object]]:
    """Give a run's logged rows; a line that is not a JSON object is passed over, as is what follows a damaged place.

    Raises:
        OSError: If the log cannot be read at all.
    """
    path = run if run.is_file() else next(run / name for name in DATA_FILES if (run / name).is_file())
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


def read_run(run: Path, named: Named = signals_of) -> list[Observation]:
    """Give the steps of a run, with the help of its meta.json.

    Args:
        run: Its file or folder.
        named: Gives a row's numbers under the names wanted; the canonical ones as it is.

    Raises:
        OSError: If the log cannot be read at all.
    """
    fallback = read_meta(run).get("signals")
    return observations(read_rows(run), fallback if isinstance(fallback, dict) else None, named)


def observations(
    rows: Iterable[Mapping[str, object]], fallback: Mapping[str, str] | None = None, named: Named = signals_of
) -> list[Observation]:
    """Give the steps of a run as observations, in the order logged."""
    steps: list[Observation] = []
    attempt = 1
    for number, row in enumerate(rows):
        step = _step(row, number)
        signals = named(row, fallback)
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
