"""Scopes, and the sender of a request."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["ANYBODY", "Caller", "Scope"]


class Scope(StrEnum):
    """The permission of a key. `INCLUDED` states the scopes that each includes; docs/keys.md lists their routes."""

    INGEST = "ingest"
    """Send batches, and read the receipts. A trainer needs only this."""
    READ = "read"
    """Read runs, alerts, the live stream, metrics and the dashboard."""
    OPERATE = "operate"
    """Read, acknowledge alerts and reset runs."""
    ADMIN = "admin"
    """Everything, which includes deleting, creating and revoking keys, and reading the audit log."""


INCLUDED: Final = {
    Scope.INGEST: {Scope.INGEST},
    Scope.READ: {Scope.READ},
    Scope.OPERATE: {Scope.READ, Scope.OPERATE},
    Scope.ADMIN: set(Scope),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request, with its permissions.

    Attributes:
        name: The name of the key, or of the user that a trusted proxy names; None if no keys are in use.
        scope: The caller's permission.
        project: The only project that the caller may access; None for all.
        key_id: The key; None for a user of a proxy, and if no keys are in use.
    """

    name: str | None
    scope: Scope
    project: str | None = None
    key_id: str | None = None

    @property
    def counted_as(self) -> str | None:
        """The key or the user of a proxy, whose requests are counted together; None if no keys are in use."""
        return None if self.name is None else self.key_id or f"user {self.name}"

    def may(self, scope: Scope) -> bool:
        """Whether the caller's scope includes another one."""
        return scope in INCLUDED[self.scope]

    def reaches(self, project: str | None) -> bool:
        """Whether the caller may see that something of a project exists."""
        return self.project is None or self.project == project

    def signature(self, given: str = "") -> str:
        """Return the recorded author of a change; a caller cannot record another author than itself.

        Args:
            given: The name that the author gives. If no keys are in use, nothing else is known about the author.
        """
        if self.name is None:
            return given or "somebody"
        return f"{given} ({self.name})" if given not in ("", "somebody", self.name) else self.name


ANYBODY: Final = Caller(name=None, scope=Scope.ADMIN)
"""Everybody who can open a connection, if no keys are in use."""
