"""The paths in the arguments of commands that read logs: the logs, and the file of a report."""

from collections.abc import Iterable
from pathlib import Path

from typer import BadParameter

from monitor_server.commands.errors import CommandError
from monitor_server.importers.protocol import RecordedLog
from monitor_server.text_safety.printable import printable

__all__ = ["log_path", "require_place", "write_page"]


def log_path(text: str) -> Path:
    """Return the path of a log or a folder of logs.

    Raises:
        BadParameter: If it is empty. `Path` would turn it into the current folder, and a script with an unset variable
            would check the files there.
    """
    if not text:
        raise BadParameter("the path of a log or a folder of logs must not be empty; `.` is the current folder")
    return Path(text)


def require_place(page: Path, logs: Iterable[RecordedLog]) -> None:
    """Refuse a report file that cannot be written or is itself a log, before the logs are read.

    Raises:
        CommandError: If it is a folder, its folder does not exist, or it is one of ``logs``.
    """
    if page.is_dir():
        raise CommandError(f"--html must name a file that can be written: {printable(page)} is a folder")
    if not page.parent.is_dir():
        raise CommandError(f"--html must name a file that can be written: there is no folder {printable(page.parent)}")
    if page.exists() and page.resolve() in {log.path.resolve() for log in logs}:
        raise CommandError(f"--html must name another file than the logs, or it would replace {printable(page)}")


def write_page(page: Path, text: str) -> None:
    """Write a report.

    Raises:
        CommandError: If the file cannot be written.
    """
    try:
        page.write_text(text, encoding="utf-8")
    except BrokenPipeError:  # /dev/stdout was closed by its reader
        raise
    except OSError as failure:
        raise CommandError(f"--html must name a file that can be written: {failure}") from failure
