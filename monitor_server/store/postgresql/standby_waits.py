"""Finds commits that wait for a synchronous standby.

Where `synchronous_standby_names` names a standby that is down, PostgreSQL answers every query and ends no commit. None
of its limits ends such a wait, because `statement_timeout` does not apply to a commit.
"""

from contextlib import closing, suppress
from typing import Any, Final

from sqlalchemy import Connection, Engine, text

from monitor_server.store.postgresql.connections import given_options

__all__ = ["explain_wait", "waiting_commits"]

# A commit waits for a standby that works for milliseconds, or for less than a second across an ocean.
USUAL_SECONDS: Final = 5.0
_COUNT: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep' "
    "AND query_start < clock_timestamp() - make_interval(secs => {seconds})"
)
# The sender of a batch has waited for a quarter of a minute by now, and gives up after half a minute.
ASK_SECONDS: Final = 2


def waiting_commits(connection: Connection) -> int:
    """Return the number of commits that wait for a synchronous standby unusually long; 0 on SQLite."""
    if connection.dialect.name != "postgresql":
        return 0
    return int(connection.execute(text(_COUNT.format(seconds=USUAL_SECONDS))).scalar_one())


def explain_wait(engine: Engine) -> str | None:
    """Return in words that commits wait for a synchronous standby, with the remedy; None if none does.

    This takes `ASK_SECONDS` for a connection of its own, and as long for the answer, because the server may be silent.
    """
    from monitor_server.store.postgresql.bounded_connection import BoundedConnection  # noqa: PLC0415 - psycopg is an extra

    arguments, options = engine.dialect.create_connect_args(engine.url)
    count = 0
    with suppress(engine.dialect.loaded_dbapi.Error):
        own: dict[str, Any] = {**options, "connect_timeout": ASK_SECONDS, "autocommit": True}
        own["options"] = given_options(engine.url)
        with closing(BoundedConnection.connect(*arguments, **own)) as connection:
            connection.answer_seconds = ASK_SECONDS
            count = connection.execute(_COUNT.format(seconds=USUAL_SECONDS)).fetchall()[0][0]
    if not count:
        return None
    return (
        f"{count} commits have waited for a synchronous standby for more than {USUAL_SECONDS:g} s; start the standby "
        "again, or take it out of synchronous_standby_names"
    )
