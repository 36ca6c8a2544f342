"""The paths in the arguments of commands that read logs: the logs, and the file of a report."""

from collections.abc import Iterable
from pathlib import Path

from typer import BadParameter

from monitor_server.commands.errors import CommandError
from monitor_server.configuration_files.writing import open_for_writing
from monitor_server.importers.corpus import DATA_FILES
from monitor_server.importers.protocol import RecordedLog
from monitor_server.text_safety.printable import printable

__all__ = ["log_path", "require_no_log", "require_place", "write_page"]


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
    require_no_log(page, logs, option="--html")


def require_no_log(file: Path, logs: Iterable[RecordedLog], *, option: str) -> None:
    """Refuse to replace one of the logs with a result.

    Raises:
        CommandError: If the file is one of ``logs``, or the rows of one that is a folder.
    """
    if not file.exists():
        return
    read = {path.resolve() for log in logs for path in (log.path, *(log.path / name for name in DATA_FILES))}
    if file.resolve() in read:
        raise CommandError(f"{option} must name another file than the logs, or it would replace {printable(file)}")


def write_page(page: Path, text: str) -> None:
    """Write a report.

    Raises:
        CommandError: If the file cannot be written.
    """
    try:
        with open_for_writing(page) as file:
            file.write(text.encode())
    except BrokenPipeError:  # /dev/stdout was closed by its reader
        raise
    except OSError as failure:
        raise CommandError(f"--html must name a file that can be written: {failure}") from failure
