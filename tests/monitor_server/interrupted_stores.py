"""Stores in which something happens while a slice is written, or the process crashes before its commit."""

import threading
from contextlib import contextmanager

import sqlalchemy

from tests.live import eventually

__all__ = ["Between", "crashing", "waiting_for_a_lock"]

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


class Between:
    """A store that does something once: before a slice is written, or at the end of its transaction."""

    def __init__(self, store, *, before=lambda: None, at_end=lambda _: None):
        self.read, self._store = store.read, store
        self._before, self._at_end = before, at_end

    @contextmanager
    def write(self):
        """Write as the store does, with the interruption."""
        before, at_end = self._before, self._at_end
        self._before, self._at_end = lambda: None, lambda _: None
        before()
        with self._store.write() as repositories:
            yield repositories
            at_end(repositories)


def crashing(store):
    """Return a store in which everything is written and nothing is committed."""

    def fail(_repositories):
        raise ZeroDivisionError

    return Between(store, at_end=fail)


def waiting_for_a_lock(work, database_url):
    """Begin some work in a thread, and return it once it waits for a lock of PostgreSQL that this thread holds."""
    thread = threading.Thread(target=work)
    thread.start()
    engine = sqlalchemy.create_engine(database_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as watching:
        eventually(lambda: watching.execute(sqlalchemy.text(WAITING)).scalar_one())
    engine.dispose()
    return thread
