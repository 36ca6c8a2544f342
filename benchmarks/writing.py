"""Writes results as a whole, because those that stand in the file already may have taken hours."""

from pathlib import Path

from monitor_server.configuration_files.writing import open_for_writing

__all__ = ["write_whole"]


def write_whole(file: Path, text: str) -> None:
    """Replace the content of a file, which stays as it was if that fails."""
    with open_for_writing(file) as stream:
        stream.write(text.encode())
