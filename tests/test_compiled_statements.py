"""Databases of one process share the statements that SQLAlchemy has compiled."""

import sqlalchemy
from sqlalchemy.engine.interfaces import CacheStats


def test_a_statement_is_compiled_once_for_all_databases_of_a_kind():
    """A second database uses the statement that the first has compiled, and returns its own rows."""
    found = []
    for number in (1, 2):
        engine = sqlalchemy.create_engine("sqlite://")
        with engine.connect() as connection:
            result = connection.execute(sqlalchemy.select(sqlalchemy.literal(number).label("of_this_test_alone")))
            found.append((result.scalar_one(), result.context.cache_hit))
        engine.dispose()
    assert [number for number, _ in found] == [1, 2]
    assert found[1][1] is CacheStats.CACHE_HIT
