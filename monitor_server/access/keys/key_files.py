"""Keys that a first start writes to files, so that containers can be started without a person."""

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.keys.administration import PREFIX, create_key, hash_key
from monitor_server.access.keys.names import fold_name
from monitor_server.configuration_files.reading import UnusableFileError, read_bounded
from monitor_server.errors import StartupError
from monitor_server.store.database import Store

__all__ = ["write_key_files"]

log = logging.getLogger(__name__)

LONGEST_FILE: Final = 4096  # bytes; a key has 47
KEY: Final = re.compile(rf"{PREFIX}[\w-]{{1,200}}", re.ASCII)


def write_key_files(store: Store, setting: str, *, now: float) -> list[Path]:
    """Create a key for each file that is missing or contains a key unknown to the store; return the written files.

    A key that was revoked or has expired stays in its file, because nobody has asked for another one; the log says so.

    Args:
        store: Where the keys are stored.
        setting: ``scope:path`` for each file, separated by commas. The name of the file becomes the name of the key.
        now: Seconds since the epoch.

    Raises:
        StartupError: If the setting cannot be read, or a file cannot be written or contains something other than a key.
    """
    written = []
    author = Caller(name="first start", scope=Scope.ADMIN)
    for scope, path in _parse(setting):
        with store.write() as repositories:
            repositories.api_keys.lock()  # another collector that starts may choose the same name
            known = repositories.api_keys.all()
            held = _read(path)
            stored = next((key for key in known if held and key.hash == hash_key(held)), None)
            if stored is not None:
                if not stored.is_valid(now):
                    log.warning(
                        "the key %r in %s %s, and who sends it is refused; empty the file and restart the collector, "
                        "which then writes a new key to it",
                        *(stored.name, path, "has expired" if stored.revoked_at is None else "was revoked"),
                    )
                continue
            names = {fold_name(key.name) for key in known if key.revoked_at is None}
            name = next(each for each in _names(path.stem) if fold_name(each) not in names)
            secret, _ = create_key(
                repositories, name=name, scope=scope, project=None, expires_at=None, author=author, now=now
            )
            # The file is written before the commit: a stored key that nobody has would be useless.
            _write(path, secret, is_private=scope is Scope.ADMIN)
        written.append(path)
    return written


def _parse(setting: str) -> Iterator[tuple[Scope, Path]]:
    for part in filter(None, (part.strip() for part in setting.split(","))):
        scope, _, path = part.partition(":")
        if scope not in set(Scope) or not path:
            raise StartupError(f"RLVITALS_KEY_FILES must be scope:path, separated by commas, got {part!r}")
        yield Scope(scope), Path(path)


def _names(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def _read(path: Path) -> str:
    """Return the key in a file; empty if there is no file, or an empty one.

    Raises:
        StartupError: If the file cannot be read, or contains other text, which would be lost.
    """
    problem = "it holds something else"
    try:
        held = read_bounded(path, longest=LONGEST_FILE).decode("ascii", "replace").strip()
        if not held or KEY.fullmatch(held):
            return held
    except UnusableFileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return ""
        problem = str(error)
    raise StartupError(
        f"RLVITALS_KEY_FILES: {path} must hold only a key: {problem}; name a file that is missing, or empty this one"
    )


def _write(path: Path, secret: str, *, is_private: bool) -> None:
    try:
        # An administrator's key is readable by its owner alone; others are shared with services of other users.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if is_private else 0o644)
        with os.fdopen(descriptor, "w") as file:
            if is_private:
                os.fchmod(descriptor, 0o600)  # an existing empty file keeps its own mode
            file.write(f"{secret}\n")
    except OSError as error:
        raise StartupError(f"RLVITALS_KEY_FILES: {path} cannot be written: {error.strerror}") from error
