"""Scopes, and who sends a request."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["ANYBODY", "Caller", "Scope"]


class Scope(StrEnum):
    """What a key may do. Which scopes a scope includes is in `INCLUDED`; docs/keys.md lists the routes of each."""

    INGEST = "ingest"
    """Send batches, and read the receipts. A trainer needs no more."""
    READ = "read"
    """Read runs, alerts, the live stream, metrics and the dashboard."""
    OPERATE = "operate"
    """Read, acknowledge alerts and reset runs."""
    ADMIN = "admin"
    """Everything, also delete, make and revoke keys, and read the audit log."""


INCLUDED: Final = {
    Scope.INGEST: {Scope.INGEST},
    Scope.READ: {Scope.READ},
    Scope.OPERATE: {Scope.READ, Scope.OPERATE},
    Scope.ADMIN: set(Scope),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request, and what they may do.

    Attributes:
        name: The name of the key, or of the user that a trusted proxy names; None where no keys are in use.
        scope: What the caller may do.
        project: The only project that the caller reaches; None for all.
        key_id: The key; None for a user of a proxy, and where no keys are in use.
    """

    name: str | None
    scope: Scope
    project: str | None = None
    key_id: str | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the caller's scope includes another one."""
        return scope in INCLUDED[self.scope]

    def reaches(self, project: str | None) -> bool:
        """Whether the caller may know of something that belongs to a project."""
        return self.project is None or self.project == project

    def signature(self, given: str = "") -> str:
        """Return who is recorded as the author of a change; nobody can record another one than themselves.

        Args:
            given: What the author calls themselves. Where no keys are in use nothing else is known.
        """
        if self.name is None:
            return given or "somebody"
        return f"{given} ({self.name})" if given not in ("", "somebody", self.name) else self.name


ANYBODY: Final = Caller(name=None, scope=Scope.ADMIN)
"""Everybody who can open a connection, where no keys are in use."""
