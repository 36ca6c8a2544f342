"""A disk that is full, or a connection that is lost, at any statement of ingest or of a slice loses nothing."""

import contextlib
import threading

import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.errors import Unavailable
from tests.monitor_server.simulated_collectors import SimulatedCollector, random_examples
from tests.monitor_server.step_processing.random_lives import SETTINGS, Life

NO_LIMIT = 2**32 - 2  # pages of an SQLite file
LONGEST = 24  # a transaction has about this many statements


class FaultyCollector(SimulatedCollector):
    """A collector in whose work the database fails now and then, at a random statement."""

    def __init__(self, draw, url, *of_collector):
        self._draw, self._url = draw, url
        self.is_spared = False
        self._full = []  # connections to a file that must not grow
        super().__init__(*of_collector)

    def append(self, batches, **options):
        """Append as the writer does, whose batches are not acknowledged if the database fails."""
        with self._failing():
            return super().append(batches, **options)

    def project(self, run_id, **options):
        """Project as the projector's thread does, which tries the slice again if the database fails."""
        try:
            with self._failing():
                return super().project(run_id, **options)
        except Unavailable:
            self.projection.forget()
            return True

    @contextlib.contextmanager
    def _failing(self):
        at = self._draw.randrange(LONGEST) if self._draw.random() < 0.3 else -1
        thread, count = threading.get_ident(), 0

        def fail(_connection, cursor, *_):
            nonlocal count
            if threading.get_ident() != thread or self.is_spared:
                return  # the collector that many tests share works beside this test, on another database
            count += 1
            if count - 1 == at:
                self._break(cursor.connection)

        sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", fail)
        try:
            yield
        finally:
            sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", fail)
            self.mend()

    def mend(self):
        """Let files grow again."""
        while self._full:
            self._full.pop().execute(f"PRAGMA max_page_count = {NO_LIMIT}")

    def _break(self, connection):
        """Let the file have no further page, or end the connection."""
        if self._url.startswith("sqlite"):
            self._full.append(connection)
            connection.execute("PRAGMA max_page_count = 1")
            return
        engine = sqlalchemy.create_engine(self._url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
        with engine.connect() as other:
            end = sqlalchemy.text("SELECT pg_terminate_backend(:pid, 10000)")
            other.execute(end, {"pid": connection.info.backend_pid})


class FaultyLife(Life):
    """A run of two collectors whose database fails, and its twin, for which it never does."""

    def __init__(self, seed, stores, engine, clock, url):
        super().__init__(seed, stores, engine, clock)
        self.collectors = [FaultyCollector(self.draw, url, store, engine, clock, SETTINGS) for store in stores]

    def tell_twin(self, batch):
        """Append a batch to the twin, also in the middle of the work of the others."""
        for each in self.collectors:
            each.is_spared = True
            each.mend()
        super().tell_twin(batch)
        for each in self.collectors:
            each.is_spared = False


@random_examples(2)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.usefixtures("small_parts")
def test_a_database_that_fails_at_any_statement_loses_and_doubles_nothing(
    two_stores, scripted, clock, database_url, seed
):
    """All that is known of the run is equal to that of its twin, which another collector has stored undisturbed."""
    FaultyLife(seed, two_stores, scripted, clock, database_url).live(30)
