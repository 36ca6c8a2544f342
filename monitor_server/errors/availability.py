"""Errors of a collector that cannot answer now, for reasons outside of the request."""

from types import MappingProxyType

from monitor_server.errors.base import CollectorError

__all__ = [
    "ChannelFailed",
    "DatabaseMigrated",
    "DeletionUnderWay",
    "MissingLibrary",
    "OutcomeUnknown",
    "ProjectedElsewhere",
    "ResourcesExhausted",
    "Unavailable",
]


class MissingLibrary(CollectorError):
    """The answer needs an optional library that is not installed on the collector."""

    status = 501


class ChannelFailed(CollectorError):
    """A channel of notifications did not accept a test message."""

    status = 502


class Unavailable(CollectorError):
    """The collector cannot answer now; nothing was stored."""

    status = 503
    headers = MappingProxyType({"Retry-After": "1"})


class DatabaseMigrated(Unavailable):
    """Another version of rlvitals has migrated the database since it was opened; nothing was stored."""


class ProjectedElsewhere(Unavailable):
    """Another has projected, reset or thinned the run since it was read; nothing was stored."""


class ResourcesExhausted(Unavailable):
    """The system gives the collector no thread or no memory; a change that was begun may be stored nevertheless."""


class OutcomeUnknown(CollectorError):
    """A change was begun, but the database has not confirmed it; it may or may not be stored."""

    status = 503
    headers = MappingProxyType({"Retry-After": "60"})


class DeletionUnderWay(CollectorError):
    """The run or the attempt is being removed, and nothing was stored; a later batch begins it anew."""

    status = 503
    headers = MappingProxyType({"Retry-After": "1"})
