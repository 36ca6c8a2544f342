"""Reads a file of rules strictly: every problem is reported with its place.

The collector applies the file that its settings name at its start, and again after each change of the file. What the
database refuses, such as a name that a person has taken, is tried again until it is accepted.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from monitor_server.access.callers import Caller, Scope
from monitor_server.configuration_files.reading import UnusableFileError, read_toml
from monitor_server.configuration_files.watching import WatchedFile
from monitor_server.errors import CollectorError, InvalidField, StartupError
from monitor_server.rules.administration.changes import Author
from monitor_server.rules.administration.rule_sets import COLLECTORS_SET, apply_rules
from monitor_server.rules.definition import Name, Rule, WrittenRule
from monitor_server.rules.problems import describe_problems
from monitor_server.store.database import Store
from monitor_server.text_safety.printable import printable

__all__ = ["MAX_FILE_RULES", "AppliedFile", "FileSet", "RuleFile", "load_rules"]

log = logging.getLogger(__name__)

MAX_FILE_RULES: Final = 1_000
AGAIN_SECONDS: Final = 60.0

FileSet = Annotated[Name, Field(description="The name of the rules that belong together")]
Rules = Annotated[list[WrittenRule], Field(max_length=MAX_FILE_RULES)]


class RuleFile(BaseModel):
    """All rules of a set. An empty set must be written as ``rules = []``, so that an emptied file deletes no rule."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    set: FileSet = "file"
    rules: Rules

    @field_validator("rules")
    @classmethod
    def _differ(cls, rules: list[Rule]) -> list[Rule]:
        places: dict[tuple[str, str | None, str | None], int] = {}
        for number, rule in enumerate(rules):
            first = places.setdefault((rule.name, rule.project, rule.run_id), number)
            if first != number:
                raise ValueError(
                    f"two rules of a file must differ in name, project or run_id, got {rule.name!r} at [{first}] and "
                    f"[{number}]"
                )
        return rules


def load_rules(path: Path) -> RuleFile:
    """Read a file of rules.

    Raises:
        InvalidField: If it cannot be used; the message contains each place, and the condition that must hold.
    """
    try:
        document = read_toml(path)
    except UnusableFileError as error:
        raise InvalidField(str(error)) from error
    try:
        return RuleFile.model_validate(document)
    except ValidationError as error:
        problems = describe_problems(error)
    except OverflowError:
        problems = ["every number must fit a double"]
    more = f"; and {len(problems) - 10} more" if len(problems) > 10 else ""  # noqa: PLR2004 - enough for one look
    raise InvalidField(f"{path}: {'; '.join(problems[:10])}{more}; see docs/rules.md")


class AppliedFile:
    """The rules of the file that the settings name, in the version that was applied last.

    Attributes:
        problem: Why the newest version of the file is not in force; None if it is.
    """

    def __init__(
        self,
        path: Path,
        store: Store,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the file, and apply it for the first time.

        Raises:
            StartupError: If the file itself cannot be used.
        """
        self._path = path
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._watched = WatchedFile(path, monotonic=monotonic)
        self._refused: RuleFile | None = None
        self.problem: str | None = None
        self._again_at = 0.0
        try:
            file = load_rules(path)
        except InvalidField as error:
            raise StartupError(f"RLVITALS_RULES_FILE: {error}") from error
        self._try(file)

    def tick(self) -> None:
        """Apply the file if it has changed and its writing has ended, and try again what the database has refused."""
        if self._watched.is_due():
            self._watched.mark_read()
            self._refused, self.problem = None, None
            try:
                file = load_rules(self._path)
            except InvalidField as error:
                self.problem = str(error)
                log.error("the file of rules has changed and cannot be used: %s", printable(error))  # noqa: TRY400
            else:
                self._try(file)
        elif self._refused is not None and self._monotonic() >= self._again_at:
            self._try(self._refused)

    def _try(self, file: RuleFile) -> None:
        """Apply a file, or note and log why the database refuses it, which must not prevent a start of the collector.

        A person can take a name or delete a run with a key for one project.
        """
        try:
            self._apply(file)
        except CollectorError as error:
            self._refused, self._again_at = file, self._monotonic() + AGAIN_SECONDS
            if str(error) != self.problem:
                self.problem = str(error)
                log.error(  # noqa: TRY400
                    "the file of rules is not in force, and its rules stay as they were until it can be applied, which "
                    "is tried every %.0f s: %s",
                    AGAIN_SECONDS,
                    printable(error),
                )
        else:
            self._refused, self.problem = None, None

    def _apply(self, file: RuleFile) -> None:
        author = Author(caller=Caller(name="RLVITALS_RULES_FILE", scope=Scope.ADMIN), now=self._clock())
        with self._store.write() as repositories:
            applied = apply_rules(repositories, COLLECTORS_SET, file.rules, author=author, is_of_settings=True)
        if applied.created or applied.changed or applied.deleted:
            log.info(
                "the file of rules was applied: %d created, %d changed, %d deleted, %d as before",
                len(applied.created),
                len(applied.changed),
                len(applied.deleted),
                applied.unchanged,
            )
