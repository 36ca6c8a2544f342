"""Rows of runs in groups are one state of the store, although it is written to while they are read."""

import sqlalchemy

from monitor_server.settings import Deadlines
from monitor_server.store.database import Store
from monitor_server.store.repositories.run_filter import RunFilter
from monitor_server.store.repositories.runs import Run
from tests.store_connections import current_connection

COMMON = {
    "source": "",
    "capability": "L1",
    "world_size": 1,
    "attempt": 1,
    "started_at": 0.0,
    "last_seen": 0.0,
    "stall_seconds": 9.0,
}


def test_a_run_stands_below_the_head_of_its_group_whatever_is_written_meanwhile(store, database_url):
    """Before each statement of a read another collector gives all runs to one project, and then to another."""
    other = Store.open(database_url)
    with store.write() as repositories:
        for place in range(6):
            name = f"r{place}"
            repositories.runs.add(Run(id=name, name=name, project=f"p{place % 3}", last_step_at=0.0, **COMMON))
    engine = sqlalchemy.create_engine(database_url)
    written = []

    def write(*_):
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("UPDATE runs SET project = :name"), {"name": f"q{len(written)}"})
        written.append(True)

    with other.read() as reading:
        asked = {"now": 0.0, "deadlines": Deadlines(lost_factor=10.0, expiry_seconds=5_000.0), "limit": 9}
        reading.run_groups.page(RunFilter(), "project", **asked)  # SQLite's snapshot begins with the first statement
        sqlalchemy.event.listen(current_connection(), "before_cursor_execute", write)
        read = reading.run_groups.rows(RunFilter(), "project", **asked)
    engine.dispose()
    other.close()
    assert len(written) >= 3
    rows = [row.group["name"] if row.group else (row.run["name"], row.run["project"]) for row in read.rows]
    assert rows == [
        "p2",
        ("r5", "p2"),
        ("r2", "p2"),
        "p1",
        ("r4", "p1"),
        ("r1", "p1"),
        "p0",
        ("r3", "p0"),
        ("r0", "p0"),
    ]
