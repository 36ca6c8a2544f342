"""Errors of a request with an id or a name that does not exist."""

from typing import Self

from monitor_server.errors.base import CollectorError

__all__ = [
    "UnknownAlert",
    "UnknownChannel",
    "UnknownKey",
    "UnknownProject",
    "UnknownRule",
    "UnknownRun",
    "UnknownSilence",
    "UnknownVersion",
    "UnknownView",
]


class UnknownRun(CollectorError):
    """No run has this id."""

    status = 404

    @classmethod
    def by_id(cls, run_id: str) -> Self:
        """Return the error for an id that no run has."""
        return cls(f"no run has the id {run_id!r}; GET /api/v1/runs lists them")


class UnknownProject(CollectorError):
    """No run belongs to this project."""

    status = 404

    @classmethod
    def by_name(cls, name: str) -> Self:
        """Return the error for a project that has no run."""
        return cls(f"no run belongs to the project {name!r}; GET /api/v1/runs lists runs and projects")


class UnknownAlert(CollectorError):
    """No alert has this id."""

    status = 404

    @classmethod
    def by_id(cls, alert_id: str) -> Self:
        """Return the error for an id that no alert has."""
        return cls(f"no alert has the id {alert_id!r}; GET /api/v1/alerts lists them")


class UnknownRule(CollectorError):
    """No rule has this id."""

    status = 404

    @classmethod
    def by_id(cls, rule_id: str) -> Self:
        """Return the error for an id that no rule has."""
        return cls(f"no rule has the id {rule_id!r}; GET /api/v1/rules lists them")


class UnknownKey(CollectorError):
    """No key in use has this name or id."""

    status = 404


class UnknownView(CollectorError):
    """No saved view has this id."""

    status = 404


class UnknownChannel(CollectorError):
    """The file of notifications has no channel of this name."""

    status = 404


class UnknownVersion(CollectorError):
    """No version of the channels and routes has this number, or it is no longer kept."""

    status = 404


class UnknownSilence(CollectorError):
    """No silence has this id."""

    status = 404

    @classmethod
    def by_id(cls, silence_id: str) -> Self:
        """Return the error for an id that no silence has."""
        return cls(f"no silence has the id {silence_id!r}; GET /api/v1/silences lists them")
