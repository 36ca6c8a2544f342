"""Finds the runs of a corpus, and reads their rows."""

from collections.abc import Iterator
from pathlib import Path

from monitor_server.importers.corpus import DATA_FILES
from monitor_server.importers.formats.json_lines import read_json_lines
from monitor_server.importers.protocol import ReadReport, Row

__all__ = ["read_rows", "run_paths"]


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


def read_rows(run: Path) -> Iterator[Row]:
    """Yield the rows of a run folder or of a file of JSON lines.

    Raises:
        LogError: If the log cannot be read at all.
    """
    path = run if run.is_file() else next(run / name for name in DATA_FILES if (run / name).is_file())
    return read_json_lines(path, ReadReport())
