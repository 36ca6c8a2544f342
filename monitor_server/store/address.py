"""The address of a database: checked before a connection is made, and shown without its secrets."""

from typing import Final
from urllib.parse import quote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from monitor_server.errors import DatabaseUnusable

__all__ = ["read_address", "shown_url"]

DRIVERS: Final = {"sqlite": "pysqlite", "postgresql": "psycopg"}
MUST_BE: Final = (
    "the address of the database (RLVITALS_DATABASE_URL or --database) must be a URL such as sqlite:///rlvitals.db or "
    "postgresql+psycopg://user:password@host/database"
)


def read_address(url: str) -> URL:
    """Return the parts of the address of a database.

    Raises:
        DatabaseUnusable: If rlvitals cannot use such a database, or its driver is not installed.
    """
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        is_ours = DRIVERS.get(backend) == parsed.get_driver_name()
    # Neither error says more than that the address is invalid, and the second one quotes a password.
    except (ArgumentError, ValueError):
        raise DatabaseUnusable(f"{MUST_BE}, got {shown_url(url)!r}") from None
    if not is_ours:
        raise DatabaseUnusable(f"{MUST_BE}, got {shown_url(url)!r}")
    if _has_unclear_password(url, parsed):
        raise DatabaseUnusable(
            f"{MUST_BE}, got one with several @ (it is not shown): in a password write @ as %40, / as %2F, : as %3A "
            "and % as %25"
        )
    try:
        parsed.get_dialect().import_dbapi()
    except ImportError as error:
        raise DatabaseUnusable(f"{backend} needs a library: {error}; pip install 'rlvitals[postgres]'") from error
    return parsed


def shown_url(url: str) -> str:
    """Return a database URL in a printable form: its password is hidden, also if it is in the query."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return "a text that is no URL"
    if _has_unclear_password(url, parsed):
        return f"{parsed.drivername}://***"
    shown = parsed.set(query=dict.fromkeys(parsed.query, "***")).render_as_string(hide_password=True)
    return shown.replace(quote("***"), "***")


def _has_unclear_password(url: str, parsed: URL) -> bool:
    """Whether another @ follows the one after the password, so that the text between may belong to the password."""
    behind = url.partition("://")[2].partition(":")[2].partition("@")[2]
    return parsed.password is not None and "@" in behind
