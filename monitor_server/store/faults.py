"""Names the faults of a database, and counts them."""

import errno
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError

__all__ = [
    "Fault",
    "FaultCounts",
    "Silent",
    "concerns_all",
    "concerns_statement",
    "connection_loss",
    "fault_of",
    "fault_of_disk",
    "is_of_pooler",
    "opening_advice",
]

Fault = Literal[
    "connection",
    "denied",
    "disk",
    "full",
    "locked",
    "migrated",
    "read_only",
    "removed",
    "schema",
    "silent",
    "slow",
    "standby",
    "other",
]
"""``denied`` is a missing right; ``disk`` a failing disk; ``migrated`` the schema of another version; ``removed`` a
file that was removed, replaced or cut; ``schema`` a missing table or column; ``silent`` a server without answer;
``slow`` a server that takes too long; ``standby`` a server whose commits wait for a synchronous standby."""


class Silent(Exception):  # noqa: N818 - a mark of errors, and not raised itself
    """Marks the driver's errors about a server that does not answer."""


# The primary result codes of SQLite, and the classes and codes of PostgreSQL (SQLSTATE); the longest prefix matches.
OF_SQLITE: Final[dict[int, Fault]] = {
    5: "locked", 6: "locked", 8: "read_only", 10: "disk", 13: "full", 14: "removed"
}  # fmt: skip
OF_POSTGRES: Final[dict[str, Fault]] = {
    "08": "connection", "25006": "read_only", "25P03": "connection", "25P04": "connection", "26": "connection",
    "3F000": "schema", "40": "locked", "42501": "denied", "42703": "schema", "42P01": "schema", "42P05": "connection",
    "53100": "full", "53300": "connection", "55P03": "locked", "57014": "slow", "57P": "connection", "58030": "disk",
}  # fmt: skip
CHECK_ADDRESS: Final = (
    "check that the server runs and takes connections, that RLVITALS_DATABASE_URL has its address, user, password "
    "and database, and that the user may create tables"
)
_FOREIGN_TABLES: Final = (
    "it has what another program has made under a name of our tables; set RLVITALS_DATABASE_URL or --database to a "
    "database, or a schema (docs/operations.md), that rlvitals has for itself"
)
_DEPENDENTS: Final = (
    "nothing was changed; if something else in the database uses what the migration changes, such as a view that "
    "somebody has made, drop it, start again, and make it again"
)
# What to do about the states of PostgreSQL that keep a database from being opened.
ADVICE_OF_POSTGRES: Final = {
    "0A000": _DEPENDENTS,  # a view uses the column whose type changes
    "2BP01": _DEPENDENTS,  # or what is dropped
    "3F000": "the search_path of the connection must name a schema that is there: see SHOW search_path, and correct it "
    "in the options of the address, or of the role or the database (docs/operations.md)",
    "42501": "the user of RLVITALS_DATABASE_URL must have SELECT, INSERT, UPDATE and DELETE on every table and USAGE "
    "on the sequences; to make or migrate the tables it must own the database, or own them and have CREATE on their "
    "schema (docs/operations.md)",
    "42710": _FOREIGN_TABLES,
    "42P07": _FOREIGN_TABLES,
}
# The errors of the operating system for a file beside a SQLite database.
OF_SYSTEM: Final[dict[int, Fault]] = {errno.EROFS: "read_only", errno.ENOSPC: "full", errno.EDQUOT: "full"}
# The driver's classes of errors about a statement and its data, among them a missing right, table or column.
OF_STATEMENTS: Final = (DataError, IntegrityError, ProgrammingError)


def fault_of(error: Exception) -> Fault:
    """Return the fault of a database error; an error without one of the driver is a wait that was too long."""
    if not isinstance(error, DBAPIError):
        return "slow"
    given: Any = error.orig
    if isinstance(given, Silent):
        return "silent"
    code = getattr(given, "sqlite_errorcode", None)
    if code is not None:
        return OF_SQLITE.get(code & 0xFF, "other")
    state = getattr(given, "sqlstate", None)
    if state is None:  # there is no server, or the connection is lost
        return "connection"
    return next((OF_POSTGRES[state[:length]] for length in (5, 3, 2) if state[:length] in OF_POSTGRES), "other")


def concerns_statement(error: Exception) -> bool:
    """Return whether an error concerns one statement and its data, and not the database.

    A missing right, table or column concerns the database: somebody has changed it beside the collector. A missing
    prepared statement concerns the connection: a pooler in between has changed its session.
    """
    is_refused_by_driver = getattr(getattr(error, "orig", None), "sqlstate", None) is None
    return isinstance(error, OF_STATEMENTS) and (
        is_refused_by_driver or fault_of(error) not in ("connection", "denied", "schema")
    )


def fault_of_disk(error: OSError) -> Fault:
    """Return the fault if the operating system does not let a file be written."""
    return OF_SYSTEM.get(error.errno or 0, "disk")


def opening_advice(error: DBAPIError, *, is_file: bool) -> str:
    """Return advice for a database that cannot be opened; it may be a file, or on a server."""
    if fault_of(error) == "locked":
        return "another program holds it, perhaps a collector that migrates it; end that program, or start again later"
    if fault_of(error) == "full":
        folders = " or its temporary folder (SQLITE_TMPDIR, else /var/tmp or /tmp)" if is_file else ""
        return (
            f"the disk of the database{folders} must have room for what a migration copies and sorts, and is full; "
            "nothing was changed: free as much as the database takes, and start again"
        )
    if is_file:
        return (
            "it must be a database of rlvitals or not be there yet, and its folder must exist and be writable; "
            "or set RLVITALS_DATABASE_URL"
        )
    if is_of_pooler(error):
        return (
            "a pooler does not take the options or the transactions of the connection; set RLVITALS_DATABASE_URL to "
            "the address of PostgreSQL itself (docs/scaling.md)"
        )
    return ADVICE_OF_POSTGRES.get(getattr(error.orig, "sqlstate", None) or "", CHECK_ADDRESS)


def is_of_pooler(error: DBAPIError) -> bool:
    """Return whether pgbouncer has refused a connection, or a transaction in its mode for single statements."""
    return any(phrase in str(error.orig) for phrase in ("unsupported startup parameter", "statement pooling mode"))


def concerns_all(error: Exception) -> bool:
    """Return whether an error from the store would affect every write, and not one run that is locked elsewhere."""
    return isinstance(error.__cause__, DBAPIError) and fault_of(error.__cause__) != "locked"


def connection_loss(error: Exception) -> DBAPIError | None:
    """Return the driver's error of an error from the store, if the connection was lost."""
    cause = error.__cause__
    return cause if isinstance(cause, DBAPIError) and cause.connection_invalidated else None


# A server that hangs makes each attempt to connect last ten seconds, and the collector's threads continue to try.
LOST_SECONDS: Final = 15.0


class FaultCounts:
    """The number of times that each fault has occurred since the process began; for any thread.

    Args:
        monotonic: A clock in seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lost_at: float | None = None
        self._lock = threading.Lock()
        self._counts: dict[str, int] = dict.fromkeys(get_args(Fault), 0)

    def count(self, fault: Fault) -> None:
        """Count a fault."""
        if fault in ("connection", "silent"):
            self._lost_at = self._monotonic()
        with self._lock:
            self._counts[fault] += 1

    def end(self) -> None:
        """Note that the database has answered."""
        self._lost_at = None

    @property
    def is_lost(self) -> bool:
        """Whether the connection was lost a short time ago, and nothing was read or written since then."""
        lost_at = self._lost_at
        return lost_at is not None and self._monotonic() - lost_at < LOST_SECONDS

    def counts(self) -> dict[str, int]:
        """Return the number of each fault, including the faults that have not occurred."""
        with self._lock:
            return dict(self._counts)
