"""Lets all databases of a test process share the statements that SQLAlchemy has compiled.

SQLAlchemy keeps the compiled statements with the engine of a database. A collector has one engine for its life, but
nearly each test opens a database of its own, and would compile each statement again, a millisecond each.
"""

from collections.abc import Hashable
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.util import LRUCache

__all__ = ["share"]

STATEMENTS = 5000


class SharedStatements(LRUCache[Hashable, Any]):
    """Compiled statements by all inputs of the text: a database's kind takes the place of its dialect object."""

    def __getitem__(self, key: Any) -> Any:
        """Return a compiled statement."""
        return super().__getitem__(_shared_key(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return a compiled statement, or the default."""
        return super().get(_shared_key(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Keep a compiled statement."""
        super().__setitem__(_shared_key(key), value)


def _shared_key(key: Any) -> Hashable:
    dialect, *rest = key
    return (dialect.name, dialect.driver, *rest)


def share() -> None:
    """Let every connection of this process use the same compiled statements from now on."""
    statements = SharedStatements(STATEMENTS)

    @event.listens_for(Engine, "engine_connect")
    def use(connection: Connection) -> None:
        connection.execution_options(compiled_cache=statements)
