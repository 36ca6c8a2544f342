"""Reads the state of a database without creating or migrating it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, select
from sqlalchemy.exc import DBAPIError

from monitor_server.errors import DatabaseUnusable
from monitor_server.store.address import read_address, shown_url
from monitor_server.store.database_state import DatabaseState, read_state
from monitor_server.store.encoding.stored_json import read_object
from monitor_server.store.faults import is_of_pooler, opening_advice
from monitor_server.store.postgresql.connections import (
    postgres_options,
    prepare_postgres,
    require_own_sessions,
    require_suitable,
)
from monitor_server.store.repositories.alert_history import JUDGED_RIGHT, JUDGED_WRONG
from monitor_server.store.schema.columns import missing_columns
from monitor_server.store.schema.version import newest_schema
from monitor_server.store.sqlite.database_file import free_bytes
from monitor_server.store.tables import alert_history, alerts
from monitor_server.text_safety.printable import one_line

__all__ = ["inspect_database"]

LATEST = 20  # judgements that are looked at


def inspect_database(url: str) -> DatabaseState | None:
    """Return the state of a database; None if there is no such file.

    Raises:
        DatabaseUnusable: If the URL is not valid, the database does not answer, or the file is not a database.
    """
    parsed = read_address(url)
    options: dict[str, Any] = {} if parsed.get_backend_name() == "sqlite" else postgres_options(parsed)
    engine = create_engine(parsed, **options)
    if options:
        prepare_postgres(engine)
    file = Path(parsed.database).absolute() if not options and parsed.database else None
    if file is not None and not file.exists():
        return None
    try:
        with engine.connect() as connection:
            require_suitable(connection)
            require_own_sessions(connection)
            state = read_state(connection, free_bytes=None if file is None else free_bytes(file))
            if state.schema_version != newest_schema():  # the tables may lack columns
                return state
            if missing := missing_columns(connection):
                return replace(state, missing_columns=tuple(missing))
            return replace(state, judged_calibration=_judged_calibration(connection))
    except DBAPIError as error:
        advice = f"; {opening_advice(error, is_file=False)}" if is_of_pooler(error) else ""
        raise DatabaseUnusable(
            f"the database {shown_url(url)} cannot be read: {one_line(error.orig)}{advice}"
        ) from error
    finally:
        engine.dispose()


def _judged_calibration(connection: Connection) -> str | None:
    """Return the calibration of the alert that was judged last; alerts of the clock and of rules have none."""
    judged = alert_history.c.change.in_([JUDGED_RIGHT, JUDGED_WRONG])
    here = (alerts.c.run_id == alert_history.c.run_id) & (alerts.c.id == alert_history.c.alert_id)
    query = select(alerts.c.evidence).join(alert_history, here).where(judged).order_by(alert_history.c.at.desc())
    found = (read_object(evidence).get("calibration") for (evidence,) in connection.execute(query.limit(LATEST)))
    return next((name for name in found if isinstance(name, str)), None)
