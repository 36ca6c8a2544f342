"""Errors that prevent a collector from starting."""

from monitor_server.errors.base import CollectorError

__all__ = ["AddressUnusable", "DatabaseNewer", "DatabaseUnusable", "KeysMissing", "StartupError", "UndeclaredRoute"]


class StartupError(CollectorError):
    """The collector cannot start; the message states the reason and the next step."""


class DatabaseNewer(StartupError):
    """A newer version of rlvitals has migrated the database."""


class DatabaseUnusable(StartupError):
    """The database cannot be opened or written."""


class KeysMissing(StartupError):
    """Other machines can reach the server, and no key is required."""


class UndeclaredRoute(StartupError):
    """A route has no scope in `access.route_scopes`."""


class AddressUnusable(StartupError):
    """The server cannot listen on the address."""
