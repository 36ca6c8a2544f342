"""The alarms of one version in judged runs as a file, with which a later version compares itself."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from monitor_server.commands.errors import CommandError
from monitor_server.configuration_files.reading import UnusableFileError, read_bounded
from monitor_server.configuration_files.writing import open_for_writing

__all__ = ["SavedAlarms", "SavedRun", "load_all", "name_version", "save"]

LONGEST_FILE = 16 << 20  # bytes; ten thousand runs with a hundred pages each take less
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Step = Annotated[int, Meta(ge=0, le=1 << 53)]


class SavedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The alarms in one run: the steps at which pages open, and whether there was a warning."""

    pages: Annotated[list[Step], Meta(max_length=100_000)]
    is_warned: bool


class SavedAlarms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The alarms of one version.

    Attributes:
        detectors: The detectors' version.
        calibration: The id of the calibration.
        runs: The alarms by the id of the run.
    """

    detectors: Annotated[str, Meta(pattern="^builtin-[0-9]{1,9}$")]  # so that no version is called as another row is
    calibration: Name
    runs: Annotated[dict[Name, SavedRun], Meta(max_length=100_000)]

    @property
    def version(self) -> str:
        """The name of the version in tables."""
        return name_version(self.detectors, self.calibration)


def name_version(detectors: str, calibration: str) -> str:
    """Return the name of a version: the detectors, and the calibration if it is not the built-in one."""
    return detectors if calibration == detectors else f"{detectors}, {calibration}"


_DECODER = msgspec.json.Decoder(SavedAlarms)


def save(path: Path, alarms: SavedAlarms) -> None:
    """Write the alarms of one version.

    Raises:
        CommandError: If the file cannot be written.
    """
    try:
        with open_for_writing(path) as file:
            file.write(msgspec.json.format(msgspec.json.encode(alarms), indent=1) + b"\n")
    except OSError as error:
        raise CommandError(f"--save must name a file that can be written: {error}") from error


def load_all(paths: Iterable[Path]) -> dict[str, SavedAlarms]:
    """Read the alarms of several versions, by the name of the version.

    Raises:
        CommandError: If a file is not one that `rlvitals reassess --save` wrote, or two of them hold the same version.
    """
    found: dict[str, SavedAlarms] = {}
    for path in paths:
        alarms = _load(path)
        if alarms.version in found:
            raise CommandError(f"--against must name each version once, got two files of {alarms.version}")
        found[alarms.version] = alarms
    return found


def _load(path: Path) -> SavedAlarms:
    try:
        return _DECODER.decode(read_bounded(path, longest=LONGEST_FILE))
    except UnusableFileError as error:
        raise CommandError(f"--against must name a file that `rlvitals reassess --save` wrote: {error}") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CommandError(
            f"--against must name a file that `rlvitals reassess --save` wrote, got {path}: {error}"
        ) from error
