"""The store: packed steps round-trip, migrations and tables agree, a snapshot is consistent."""

import json
import math
import stat
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.errors import DatabaseUnusable, Unavailable
from monitor_server.store import schema as schema_package
from monitor_server.store.database import Store
from monitor_server.store.encoding.step_signals import columns, pack, unpack
from monitor_server.store.postgresql import connections
from monitor_server.store.repositories.recent_steps import Recent
from monitor_server.store.schema import migrating
from monitor_server.store.schema.version import newest_schema, schema_version
from monitor_server.store.tables import metadata
from tests.live import eventually
from tests.store_connections import current_connection, is_waiting_for_lock

NAMES = [f"s{place}" for place in range(6)]


def _bits(values):
    return {name: "nan" if math.isnan(value) else value.hex() for name, value in values.items()}


@given(values=st.dictionaries(st.sampled_from(NAMES), st.floats()), known=st.integers(6, 9))
def test_what_is_packed_comes_back_and_what_was_not_observed_stays_away(values, known):
    """Every float survives to the bit, NaN as NaN; an absent signal is absent, not NaN."""
    names = [*NAMES, *(f"later{place}" for place in range(known - 6))]
    packed = pack(values, {name: place for place, name in enumerate(names)})
    assert _bits(unpack(packed, names)) == _bits(values)


@given(values=st.lists(st.none() | st.floats(), min_size=1))
def test_a_column_tells_observed_nan_from_nothing(values):
    """Rows of one signal, some without it and one too short, give values and the observed places."""
    rows = [pack({} if value is None else {"a": value}, {"a": 0}) for value in values] + [b""]
    ((found, observed),) = columns(rows, [0])
    assert observed.tolist() == [value is not None for value in values] + [False]
    wanted = np.array([value for value in values if value is not None], dtype=np.float64)
    np.testing.assert_array_equal(found[observed], wanted)


def test_the_migrations_make_the_tables(store):
    """A migrated database has exactly the tables that the code defines."""
    with store.read():
        context = MigrationContext.configure(current_connection())
        assert compare_metadata(context, metadata) == []


def test_the_names_of_the_migrations_say_which_is_the_newest(store):
    """Alembic finds the same one at the end of the chain, and the same one in a migrated database."""
    assert newest_schema() == migrating.scripts().get_current_head()
    with store.read():
        assert schema_version(current_connection()) == newest_schema()
        assert MigrationContext.configure(current_connection()).get_current_revision() == newest_schema()


def test_a_database_of_the_newest_schema_is_opened_without_alembic(database_url, monkeypatch, tmp_path):
    """Alembic's import would be a twentieth of every start."""
    monkeypatch.delattr(schema_package, "migrating")
    monkeypatch.setitem(sys.modules, "monitor_server.store.schema.migrating", None)
    Store.open(database_url).close()
    with pytest.raises(ImportError):
        Store.open(f"sqlite:///{tmp_path / 'new.db'}")  # has no table yet


@pytest.mark.parametrize(
    "address",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///file::memory:?uri=true",
        "sqlite:///file:a?mode=memory&uri=true",
    ],
)
def test_a_database_in_memory_is_refused(address):
    """Each connection would have another one, so that a key that is made exists nowhere."""
    with pytest.raises(DatabaseUnusable, match="must name a file"):
        Store.open(address)


def test_a_new_database_can_be_read_by_its_owner_alone(tmp_path):
    """Whoever reads the secrets that sign sessions can sign in as any key; a file that is there keeps its mode."""
    path = tmp_path / "new.db"
    Store.open(f"sqlite:///{path}").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    store = Store.open(f"sqlite:///{path}")
    with store.write() as repositories:
        repositories.api_keys.lock()
    modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    store.close()
    assert modes == {0o640}


def test_acknowledged_commits_reach_the_disk(store):
    """WAL with synchronous FULL, and foreign keys on; PostgreSQL as it comes."""
    if store.is_shared:
        return
    with store.read():
        ask = current_connection().exec_driver_sql
        assert ask("PRAGMA journal_mode").scalar() == "wal"
        assert ask("PRAGMA synchronous").scalar() == 2
        assert ask("PRAGMA foreign_keys").scalar() == 1


def test_what_sqlite_may_have_to_undo_is_kept_in_memory(store):
    """Otherwise each commit would create a temporary file for the pages that its insert of many rows changes."""
    if store.is_shared:
        return
    with store.read():
        assert current_connection().exec_driver_sql("PRAGMA temp_store").scalar() == 2


def test_the_step_time_is_the_median_of_steps_taken():
    """Steps 0, 1, 2, 4 at 0, 10, 20, 60 s took 10, 10 and (60 - 20) / 2 = 20 s: the median is 10."""
    recent = Recent()
    for step, time in ((0, 0.0), (1, 10.0), (2, 20.0), (4, 60.0)):
        recent.add(step=step, time=time, reward=None)
    assert recent.step_seconds() == 10.0
    recent.add(step=0, time=500.0, reward=1.0)  # a rewind is no step time
    assert recent.step_seconds() == 10.0
    assert recent.rewards == [1.0]


def test_steps_that_came_in_one_batch_share_the_time_until_the_next():
    """Ten steps a batch without times of their own, a batch every five seconds: half a second a step."""
    recent = Recent()
    for step in range(10):
        recent.add(step=step, time=100.0, reward=None)
    assert recent.step_seconds() is None
    for step in range(10, 30):
        recent.add(step=step, time=100.0 + 5.0 * (step // 10), reward=None)
    assert recent.step_seconds() == 0.5
    assert recent.interval_seconds() == 5.0


def test_recent_steps_are_bounded():
    """Only the newest 64 steps are kept."""
    recent = Recent()
    for step in range(200):
        recent.add(step=step, time=float(step), reward=float(step))
    assert recent.rewards == [float(step) for step in range(136, 200)]
    assert len(recent.times) == 64


def test_a_step_that_goes_back_undoes_the_rewards_from_it_on():
    """Steps without a reward count as well, and rewards that were stored without their steps stay."""
    recent = Recent(rewards=[9.0])
    for step, reward in ((4, 0.5), (5, 0.25), (6, None), (7, 0.125), (5, None)):
        recent.add(step=step, time=float(step), reward=reward)
    assert recent.rewards == [9.0, 0.5]
    recent.add(step=6, time=6.0, reward=0.75)
    assert (recent.rewards, recent.reward_steps) == ([9.0, 0.5, 0.75], [4, 6])


@pytest.fixture
def end_connections(database_url):
    """Let PostgreSQL end all other connections to its database, as a restart does."""

    def end():
        with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    return end


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_connection_that_the_server_ended_while_nobody_used_it_is_replaced(store, end_connections, monkeypatch):
    """After a pause each connection is tested before it is used."""
    monkeypatch.setattr(connections, "UNTESTED_SECONDS", 0.0)
    store.probe()
    end_connections()
    store.probe()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_connection_that_the_server_ended_while_it_was_in_use_costs_one_answer(store, end_connections, monkeypatch):
    """The connection is not tested; the failure is reported as unavailable, and the next transaction has a new one."""
    monkeypatch.setattr(connections, "UNTESTED_SECONDS", 3_600.0)
    store.probe()
    end_connections()
    with pytest.raises(Unavailable):
        store.probe()
    store.probe()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_what_an_address_says_of_its_connections_is_joined_with_our_bounds(database_url):
    """A schema, for example, in which a team keeps the tables."""
    store = Store.open(f"{database_url}?options=-c%20work_mem%3D7MB&connect_timeout=3")
    with store.read():
        shown = [current_connection().exec_driver_sql(f"SHOW {name}").scalar() for name in ("work_mem", "lock_timeout")]
    store.close()
    assert shown == ["7MB", "10s"]


def test_the_notices_of_a_channel_are_not_those_of_one_whose_name_differs_in_case(store):
    """Each channel has its own limit of notices, on both databases."""
    with store.write() as repositories:
        messages = repositories.notification_messages
        for number, channel in enumerate(("ops@1", "Ops@1", "Ops@2", "ops_2@1")):
            messages.add_notice(str(number), channel, b"{}", severity="warning", now=1.0)
        counts = [
            messages.notices_since(name, severity="warning", since=0.0) for name in ("ops", "Ops", "OPS", "ops_2", "op")
        ]
    assert counts == [1, 2, 0, 1, 0]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_labels_that_two_collectors_save_at_once_are_all_found(store, database_url, append):
    """Each forms the words of the search from all labels, so the second waits for the first."""
    run_id = append(project="p")
    other = Store.open(database_url)

    def tag():
        with other.write() as repositories:
            return repositories.runs.save_labels(run_id, {"tags": json.dumps(["giraffe"]).encode()})

    with ThreadPoolExecutor(1) as threads:
        with store.write() as repositories:
            assert repositories.runs.save_labels(run_id, {"title": "Zebra"})
            assert not repositories.runs.save_labels("removed", {"title": "Zebra"})
            saving = threads.submit(tag)
            eventually(lambda: is_waiting_for_lock(other))
        assert saving.result()
    with store.read() as repositories:
        assert repositories.runs.row(run_id)["search_text"].endswith(" zebra giraffe")
    other.close()
