"""Appends records to the ends of the logs of several runs at once."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from sqlalchemy import Connection

from monitor_server.store.postgresql.single_statement import as_whole_transaction
from monitor_server.store.repositories.log.blocks import RecordBlock
from monitor_server.store.schema.version import newest_schema
from monitor_server.store.statements import Insertion
from monitor_server.store.tables import records

__all__ = ["INSERT_BLOCKS", "Extension", "extend_logs"]

INSERT_BLOCKS = Insertion(records, columns=["run_id", *RecordBlock._fields])

_MOVE_END = """
UPDATE runs SET log_end = ?, last_seen = ?, is_settled = 0 WHERE id = ? AND log_end = ? AND deleted_at IS NULL
"""
# On PostgreSQL one exchange with the server moves the ends of all logs and inserts all records: after each exchange the
# writer waits for its turn in Python. The rows of the runs are locked in the order of their ids, so that two collectors
# never wait for each other's runs. The lock returns the current values of a row that another collector has changed
# meanwhile. If a log does not end where it was expected, or if another version has migrated the database, nothing is
# written: this statement may be a whole transaction, which `Store.write` cannot undo.
_MOVE_ENDS = """
WITH given AS (
  SELECT * FROM
  unnest(%b::varchar[], %b::bigint[], %b::bigint[], %b::double precision[]) AS g(run, log_begin, log_end, at)
), locked AS (
  SELECT id, log_end, deleted_at FROM runs WHERE id IN (SELECT run FROM given) ORDER BY id COLLATE "C"
  FOR NO KEY UPDATE
), fitting AS (
  SELECT count(*) = (SELECT count(*) FROM given) AND (SELECT version_num = '{schema}' FROM alembic_version) AS all_fit
  FROM given JOIN locked ON locked.id = given.run
  WHERE locked.log_end = given.log_begin AND locked.deleted_at IS NULL
), moved AS (
  UPDATE runs SET log_end = given.log_end, last_seen = given.at, is_settled = false
  FROM given WHERE runs.id = given.run AND (SELECT all_fit FROM fitting)
), inserted AS (
  {insertion} WHERE (SELECT all_fit FROM fitting)
)
SELECT all_fit FROM fitting
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Records after a position of a run's log, and the time of their arrival."""

    run_id: str
    begin: int
    end: int
    now: float
    blocks: Sequence[RecordBlock]


def extend_logs(connection: Connection, extensions: Sequence[Extension], *, ends_transaction: bool) -> bool:
    """Append records, move the ends of the logs, and lock the runs.

    Args:
        connection: A connection in a transaction.
        extensions: The records; those of one run follow each other.
        ends_transaction: Whether the transaction has no statement after this one. If it has none before either, it is
            committed on return where that saves time.

    Returns:
        False if a log ends at another place, or another version has migrated the database; then the transaction must
        not be committed.
    """
    rows = [(each.run_id, *block) for each in extensions for block in each.blocks]
    if connection.dialect.name == "sqlite":
        moves = [(each.end, each.now, each.run_id, each.begin) for each in extensions]
        if connection.exec_driver_sql(_MOVE_END, moves).rowcount != len(moves):
            return False
        INSERT_BLOCKS.execute(connection, rows)
        return True
    joined: dict[str, tuple[int, int, float]] = {}
    for each in extensions:
        begin, end, _ = joined.get(each.run_id, (each.begin, each.begin, 0.0))
        if each.begin != end:
            return False
        joined[each.run_id] = (begin, each.end, each.now)
    ends = [list(joined), *map(list, zip(*joined.values(), strict=True))]
    statement = _MOVE_ENDS.format(schema=newest_schema(), insertion=INSERT_BLOCKS.of_arrays(connection.dialect))
    with as_whole_transaction(connection) if ends_transaction else nullcontext():
        result = connection.exec_driver_sql(statement, (*ends, *INSERT_BLOCKS.to_arrays(rows)))
        return bool(result.scalar_one())
