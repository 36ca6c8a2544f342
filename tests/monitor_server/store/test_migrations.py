"""A database that an older version wrote keeps its data: it is migrated, and the API answers the same."""

import gzip
import json
from pathlib import Path

import pytest
import sqlalchemy
from alembic import command
from alembic.config import Config

from monitor_server.store.database import Store
from monitor_server.store.repositories.run_status import ENDED
from monitor_server.store.schema.version import MIGRATIONS
from tests.databases import sqlite_only
from tests.postgres import create_database
from tests.store_connections import current_connection

DATABASES = Path(__file__).parent / "databases"
REVISIONS = ["0005", "0006", "0008"]


def differences(new, old, path=""):
    """Yield the parts of the older answer that the new one lacks; additions in the new one do not matter."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{path}/{key} is missing"
            else:
                yield from differences(new[key], value, f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (here, there) in enumerate(zip(new, old, strict=True)):
            yield from differences(here, there, f"{path}/{place}")
    elif new != old:
        yield f"{path}: {new!r} instead of {old!r}"


def newest_finite(run):
    """Return the newest reward of a run's small curve that is a finite number."""
    return next(value for value in reversed(run["sparkline"]["values"]) if not isinstance(value, str))


def unpacked(revision, folder):
    """Return the path of a database that a version wrote, and the clock and the answers of then."""
    path = folder / f"{revision}.db"
    path.write_bytes(gzip.decompress((DATABASES / f"{revision}.db.gz").read_bytes()))
    return path, json.loads((DATABASES / f"{revision}.json").read_text())


def copied_to_postgres(path, revision, url):
    """Bring an empty PostgreSQL database to an older schema, and copy every row of an SQLite database into it."""
    source = sqlalchemy.create_engine(f"sqlite:///{path}")
    target = sqlalchemy.create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with source.connect() as rows, target.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        tables = sqlalchemy.MetaData()
        tables.reflect(connection)
        for table in tables.sorted_tables:
            if table.name == "alembic_version":
                continue
            flags = [column.name for column in table.c if isinstance(column.type, sqlalchemy.Boolean)]
            everything = sqlalchemy.select(sqlalchemy.text("*")).select_from(sqlalchemy.table(table.name))
            found = rows.execute(everything).mappings()
            copies = [dict(row) | {name: bool(row[name]) for name in flags} for row in found]
            if copies:
                connection.execute(table.insert(), copies)
            if "number" in table.c:
                largest = max((copy["number"] for copy in copies), default=0) + 1
                sequence = f"pg_get_serial_sequence('{table.name}', 'number')"
                connection.execute(sqlalchemy.text(f"SELECT setval({sequence}, {largest}, false)"))
    source.dispose()
    target.dispose()


def assert_answers_as_before(live, saved):
    """The API gives the answers of that time, and the steps that waited for a rank are completed by it."""
    for asked, answer in saved["answers"].items():
        found = live.get(asked, **({"limit": 1000} if asked == "/alerts" else {}))
        assert list(differences(found, answer, asked)) == []
    listed = live.get("/runs", sort="reward:desc", text="LABORATORY")["items"]
    assert [run["reward"] for run in listed] == sorted((newest_finite(run) for run in listed), reverse=True)
    assert {run["setting"] for run in listed} == {run["name"] for run in listed}
    (run,) = [run["id"] for run in saved["answers"]["/runs"]["items"] if run["name"] == "two ranks"]
    action = {"action": "checkpoint", "alert_id": "a1", "outcome": "taken", "reason": "critical"}
    last = {"step": 75, "scalars": {"reward/mean": 0.25}, "actions": [action]}
    live.send(run="two ranks", project="laboratory", attempt=2, rank=1, world_size=2, records=[last])
    assert live.get(f"/runs/{run}")["last_step"] == 75  # what waited for rank 1 is complete now
    numbers = [one["id"] for one in live.get(f"/runs/{run}/responses")["items"]]
    assert len(set(numbers)) == len(numbers)


@sqlite_only  # each has its own database
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_older_database_answers_as_before(start_collector, clock, tmp_path, revision):
    """Runs, steps, series, phases, alerts, responses, actions and acknowledgements survive the migrations."""
    path, saved = unpacked(revision, tmp_path)
    clock.now = saved["now"]
    live = start_collector(database_url=f"sqlite:///{path}", clock=clock, step_deadline_seconds=100_000.0)
    assert_answers_as_before(live, saved)


@sqlite_only  # each has its own database
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_older_postgresql_database_answers_as_before(start_collector, postgres, clock, tmp_path, revision):
    """The same rows in PostgreSQL, in the schema of the older version, survive its migrations."""
    path, saved = unpacked(revision, tmp_path)
    url = create_database(postgres)
    copied_to_postgres(path, revision, url)
    clock.now = saved["now"]
    live = start_collector(database_url=url, clock=clock, step_deadline_seconds=100_000.0)
    assert_answers_as_before(live, saved)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_runs_that_had_ended_are_settled_by_the_migration(kind, request, tmp_path):
    """A collector does not look at them at each tick; runs with something to do are not settled."""
    path, saved = unpacked("0008", tmp_path)
    url = f"sqlite:///{path}"
    if kind == "postgresql":
        url = create_database(request.getfixturevalue("postgres"))
        copied_to_postgres(path, "0008", url)
    store = Store.open(url)
    with store.read():
        settled = set(current_connection().exec_driver_sql("SELECT name FROM runs WHERE is_settled").scalars())
    store.close()
    runs = saved["answers"]["/runs"]["items"]
    assert settled == {run["name"] for run in runs if run["status"] in ENDED} == {"done"}


def test_sqlite_keeps_records_by_rowid(tmp_path):
    """A record that is longer than a leaf of an index tree holds takes no page of its own."""
    path, _ = unpacked("0008", tmp_path)
    url = f"sqlite:///{path}"
    Store.open(url).close()
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        query = sqlalchemy.text("SELECT sql FROM sqlite_master WHERE name = 'records'")
        assert "WITHOUT ROWID" not in connection.execute(query).scalar_one().upper()
    engine.dispose()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("tags", b"not JSON"),
        ("tags", b""),
        ("tags", b"null"),
        ("tags", b'{"a": 1}'),
        ("tags", b'[1, "\\ud800", "whole"]'),
        ("recent", b"\x81\xa7reward\xff\x90"),
        ("recent", b"\x91" * 100_000),
        ("recent", b"\x81\xa7rewards\x91\xa1x"),
    ],
)
def test_a_damaged_row_does_not_stop_the_migration(tmp_path, column, value):
    """The columns for search and order come from the readable part, and the other runs have all of it."""
    path, _ = unpacked(REVISIONS[-1], tmp_path)
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0023")
        damage = f"UPDATE runs SET {column} = :value WHERE number = (SELECT min(number) FROM runs)"  # noqa: S608
        connection.execute(sqlalchemy.text(damage), {"value": value})
    engine.dispose()
    Store.open(f"sqlite:///{path}").close()
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        texts = connection.execute(sqlalchemy.text("SELECT search_text FROM runs")).scalars().all()
    engine.dispose()
    assert len(texts) > 1
    assert all(texts)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_results_of_channels_are_kept_by_the_migration(kind, request, tmp_path):
    """A channel that failed before the upgrade fails after it, with its reason; notices are no results."""
    url = f"sqlite:///{tmp_path / 'x.db'}" if kind == "sqlite" else create_database(request.getfixturevalue("postgres"))
    engine = sqlalchemy.create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    messages = [
        ("a", "hook", 1.0, None, None), ("b", "hook", None, 2.0, "refused"), ("c", "hook", None, None, "open"),
        ("d", "mail", None, 1.0, "full"), ("e", "mail", 2.0, None, None), ("f", "hook@1", None, 3.0, "gone"),
    ]  # fmt: skip
    insert = sqlalchemy.text(
        "INSERT INTO notification_messages (id, channel, created_at, severity, events, body, attempts, next_attempt_at,"
        " sent_at, given_up_at, error) VALUES (:id, :channel, 0, 'warning', 1, :body, 1, 0, :sent, :given_up, :error)"
    )
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0032")
        for id_, channel, sent, given_up, error in messages:
            row = {"id": id_, "channel": channel, "sent": sent, "given_up": given_up, "error": error, "body": b""}
            connection.execute(insert, row)
        command.upgrade(config, "0033")
        found = connection.exec_driver_sql("SELECT * FROM channel_results ORDER BY channel").all()
        command.upgrade(config, "head")
        command.downgrade(config, "0032")
        command.upgrade(config, "0033")
        assert connection.exec_driver_sql("SELECT * FROM channel_results ORDER BY channel").all() == found
    engine.dispose()
    assert [tuple(row) for row in found] == [
        ("hook", 1.0, 2.0, "refused", None), ("mail", 2.0, 1.0, None, None)
    ]  # fmt: skip
