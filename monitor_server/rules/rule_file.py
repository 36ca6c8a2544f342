"""Reads a file of rules strictly: every problem is named with its place.

The collector applies the file that its settings name at its start, and anew after it has changed.
"""

import logging
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monitor_server.access.callers import Caller, Scope
from monitor_server.errors import CollectorError, InvalidField, StartupError, Unavailable
from monitor_server.printable import printable
from monitor_server.rules.administration import COLLECTORS_SET, Author, apply_rules
from monitor_server.rules.definition import Rule, describe_problems
from monitor_server.store.database import Store

__all__ = ["MAX_FILE_RULES", "AppliedFile", "FileSet", "RuleFile", "load_rules"]

log = logging.getLogger(__name__)

LONGEST_FILE: Final = 1024 * 1024
MAX_FILE_RULES: Final = 1_000
SETTLED_SECONDS: Final = 1.0  # a file that is being written is left alone until it has been the same for so long

FileSet = Annotated[
    str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$", description="The name of the rules that belong together")
]
Rules = Annotated[list[Rule], Field(max_length=MAX_FILE_RULES)]


class RuleFile(BaseModel):
    """Every rule of a set. ``rules = []`` must be written where there are none: an emptied file deletes no rule."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    set: FileSet = "file"
    rules: Rules


def load_rules(path: Path) -> RuleFile:
    """Read a file of rules.

    Raises:
        InvalidField: If it cannot be used; the message names each place, and what must hold.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidField(f"{path} cannot be read: {error.strerror}") from error
    if len(raw) > LONGEST_FILE:
        raise InvalidField(f"{path} must be smaller than 1 MiB, got {len(raw)} bytes")
    try:
        document = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, or a number that is too long
        raise InvalidField(f"{path} must be TOML: {printable(error, longest=300)}") from None
    try:
        return RuleFile.model_validate(document)
    except ValidationError as error:
        problems = describe_problems(error)
    except OverflowError:
        problems = ["every number must fit a double"]
    more = f"; and {len(problems) - 10} more" if len(problems) > 10 else ""  # noqa: PLR2004 - enough for one look
    raise InvalidField(f"{path}: {'; '.join(problems[:10])}{more}; see docs/rules.md")


class AppliedFile:
    """The file of rules that the settings name, as it was applied last."""

    def __init__(
        self,
        path: Path,
        store: Store,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Apply the file for the first time.

        Raises:
            StartupError: If the file cannot be used.
        """
        self._path = path
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._applied = self._seen = _signature(path)
        self._seen_at = monotonic()
        self._is_due = False
        try:
            self._apply()
        except CollectorError as error:
            raise StartupError(f"RLVITALS_RULES_FILE: {error}") from error

    def tick(self) -> None:
        """Apply the file where it has changed and is no longer being written; an unusable one changes nothing."""
        seen, now = _signature(self._path), self._monotonic()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        if seen is None or (seen == self._applied and not self._is_due) or now - self._seen_at < SETTLED_SECONDS:
            return
        self._applied, self._is_due = seen, False
        try:
            self._apply()
        except Unavailable as error:
            self._is_due = True
            log.warning("the file of rules could not be applied, which is tried again: %s", error)
        except CollectorError as error:
            log.error("the file of rules has changed and cannot be used: %s", printable(error))  # noqa: TRY400

    def _apply(self) -> None:
        file = load_rules(self._path)
        author = Author(caller=Caller(name="RLVITALS_RULES_FILE", scope=Scope.ADMIN), now=self._clock())
        with self._store.write() as repositories:
            applied = apply_rules(repositories, COLLECTORS_SET, file.rules, author=author, is_of_settings=True)
        if applied.created or applied.changed or applied.deleted:
            log.warning(
                "the file of rules was applied: %d created, %d changed, %d deleted, %d as before",
                len(applied.created),
                len(applied.changed),
                len(applied.deleted),
                applied.unchanged,
            )


def _signature(path: Path) -> tuple[int, ...] | None:
    """Return what changes with a file, its permissions included; None where there is none."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino
