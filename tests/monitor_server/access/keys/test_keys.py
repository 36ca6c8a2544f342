"""Keys are made, used, expire and are revoked; only their hash is stored."""

import contextlib
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, text

from monitor_server.access.callers import Scope
from monitor_server.access.keys.administration import MAX_KEYS, create_key, hash_key
from monitor_server.access.keys.key_files import write_key_files
from monitor_server.access.keys.known_keys import KnownKeys
from monitor_server.access.oidc.persons import Person, open_session
from monitor_server.commands.main import main
from monitor_server.errors import InvalidField, KeyNameTaken
from monitor_server.store.database import Store
from monitor_server.store.repositories.api_keys import StoredKey
from tests.databases import sqlite_only
from tests.live import eventually, listening
from tests.monitor_server.access.conftest import AUTHOR, Guarded
from tests.store_connections import is_waiting_for_lock


def test_without_keys_everything_is_as_before(guarded):
    """Everybody who reaches a collector that never had a key may do everything; a key that is sent is not checked."""
    run = guarded.send(None)
    assert guarded.ask("GET", f"/api/v1/runs/{run}", "anything").status == 200
    assert guarded.ask("GET", "/readyz").json()["quarantined_runs"] == 0
    assert guarded.ask("GET", "/api/v1/session").json()["name"] is None


def test_the_first_key_is_made_on_the_machine(guarded):
    """Over HTTP nobody can lock out the others."""
    answer = guarded.ask("POST", "/api/v1/keys", body={"name": "mine", "scope": "admin"})
    assert (answer.status, answer.json()["error"]) == (401, "KeyRequired")
    assert "rlvitals keys create" in answer.json()["detail"]


def test_a_key_is_shown_once_and_stored_as_a_hash(guarded, database_url):
    """256 random bits behind a prefix; the database has their SHA-256, and no list shows them."""
    admin = guarded.key("admin")
    answer = guarded.ask("POST", "/api/v1/keys", admin, body={"name": "trainer", "scope": "ingest", "project": "ours"})
    made = answer.json()
    assert re.fullmatch(r"rlv_[\w-]{43}", made["key"])
    engine = create_engine(database_url)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM api_keys ORDER BY number")).mappings().all()
    engine.dispose()
    assert [bytes(row["hash"]) for row in rows] == [hash_key(admin), hashlib.sha256(made["key"].encode()).digest()]
    assert not [row for row in rows if made["key"].removeprefix("rlv_") in str(dict(row))]
    listed = guarded.ask("GET", "/api/v1/keys", admin).json()["items"]
    assert [item["name"] for item in listed] == ["admin-None-0", "trainer"]
    assert "key" not in listed[1]
    assert (made["created_by"], made["state"]) == ("admin-None-0", "active")


def test_a_revoked_key_ends_at_once_and_for_ever(guarded):
    """Its stream ends too, and revoking the last key does not open the collector."""
    admin = guarded.key("admin")
    read = guarded.key("read", name="reader")
    guarded.live.pool.headers["Authorization"] = f"Bearer {read}"
    with listening(guarded.live) as events:
        assert guarded.ask("DELETE", "/api/v1/keys/reader", admin).json()["state"] == "revoked"
        ((kind, data),) = [event for event in events if event[0] != "dropped"]
    assert (kind, "revoked" in data["reason"]) == ("ended", True)
    assert guarded.ask("GET", "/api/v1/runs", read).status == 401
    assert guarded.ask("DELETE", "/api/v1/keys/reader", admin).status == 404
    assert guarded.ask("DELETE", "/api/v1/keys/admin-None-0", admin).status == 200
    assert guarded.ask("GET", "/api/v1/runs", admin).status == 401
    guarded.live.pool.headers.clear()
    assert guarded.ask("GET", "/api/v1/runs").status == 401


def test_a_table_of_keys_that_was_emptied_opens_nothing(guarded, database_url, caplog):
    """While a restore has yet to fill it, or after somebody has deleted all keys, nobody is an administrator."""
    guarded.key("admin")
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM api_keys"))
    engine.dispose()
    guarded.live.app.state.collector.keys.read()
    assert guarded.ask("GET", "/api/v1/session").status == 401
    assert "the database has no key any more" in caplog.text
    assert guarded.ask("GET", "/api/v1/session", guarded.key("read")).status == 200


def test_a_key_that_another_process_revokes_ends_within_seconds(guarded, capsys, database_url):
    """The command writes to the database; the collector reads it every second."""
    read = guarded.key("read", name="reader")
    assert guarded.ask("GET", "/api/v1/runs", read).status == 200
    assert main(["keys", "revoke", "reader", "--database", database_url]) == 0
    eventually(lambda: guarded.ask("GET", "/api/v1/runs", read).status == 401)
    assert main(["keys", "revoke", "reader", "--database", database_url]) == 1
    assert "no key in use" in capsys.readouterr().err


def test_a_key_expires(start_collector, scripted, clock):
    """At its time, without anybody doing anything."""
    guarded = Guarded(start_collector(engine=scripted, clock=clock))
    admin = guarded.key("admin")
    body = {"name": "brief", "scope": "read", "days": 1}
    for days in (True, "1"):
        assert guarded.ask("POST", "/api/v1/keys", admin, body=body | {"days": days}).status == 422
    made = guarded.ask("POST", "/api/v1/keys", admin, body=body).json()
    clock.now += 86_399
    assert guarded.ask("GET", "/api/v1/runs", made["key"]).status == 200
    clock.now += 1
    assert guarded.ask("GET", "/api/v1/runs", made["key"]).status == 401
    assert guarded.ask("GET", "/api/v1/keys", admin).json()["items"][1]["state"] == "expired"


def test_the_last_use_is_written_once_a_minute(start_collector, scripted, clock):
    """The first use at once, and then no sooner than a minute later."""
    guarded = Guarded(start_collector(engine=scripted, clock=clock))
    admin, keys = guarded.key("admin"), guarded.live.app.state.collector.keys

    def last_used():
        keys.read()
        keys.save_uses()
        return guarded.ask("GET", "/api/v1/keys", admin).json()["items"][0]["last_used_at"]

    begin = clock.now
    guarded.ask("GET", "/api/v1/runs", admin)
    assert last_used() == begin
    clock.now += 59
    assert last_used() == begin
    assert last_used() == begin
    clock.now += 1
    guarded.ask("GET", "/api/v1/runs", admin)
    assert last_used() == begin + 60


def test_the_last_use_is_written_when_the_collector_stops(database_url):
    """A use within the last minute would be lost otherwise."""
    now, store = [1_000.0], Store.open(database_url)
    with store.write() as repositories:
        secret, _ = _make_ci(repositories)
    keys = KnownKeys(store, clock=lambda: now[0])
    keys.read()
    keys.recognise(secret)
    keys.save_uses()
    keys.read()
    now[0] += 59.0
    keys.recognise(secret)
    keys.stop()
    with store.read() as repositories:
        assert repositories.api_keys.all()[0].last_used_at == 1_059.0
    store.close()


def test_names_in_use_are_unique(guarded):
    """A name in the audit log must identify one key; a revoked key frees its name."""
    admin = guarded.key("admin")
    body = {"name": "twice", "scope": "read"}
    assert guarded.ask("POST", "/api/v1/keys", admin, body=body).status == 200
    refused = guarded.ask("POST", "/api/v1/keys", admin, body=body)
    assert (refused.status, refused.json()["error"]) == (409, "KeyNameTaken")
    guarded.ask("DELETE", "/api/v1/keys/twice", admin)
    assert guarded.ask("POST", "/api/v1/keys", admin, body=body).status == 200


def _make_ci(repositories):
    return create_key(
        repositories, name="ci", scope=Scope.READ, project="p", expires_at=None, author=AUTHOR, now=1.0
    )  # fmt: skip


def _open_session_of_anna(repositories):
    person = Person(subject="https://id.example 7", name="anna", scope=Scope.READ, project=None, group="team")
    return open_session(repositories, person, until=100.0, now=1.0)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_two_collectors_that_start_at_once_both_write_their_key_files(database_url, tmp_path):
    """The second waits for the first, and gives its key another name."""
    first, second = Store.open(database_url), Store.open(database_url)
    with ThreadPoolExecutor(1) as threads:
        with first.write() as repositories:
            create_key(
                repositories, name="admin", scope=Scope.ADMIN, project=None, expires_at=None, author=AUTHOR, now=1.0
            )  # fmt: skip
            writing = threads.submit(write_key_files, second, f"admin:{tmp_path}/admin", now=1.0)
            eventually(lambda: is_waiting_for_lock(second) or writing.done())
        assert writing.result() == [tmp_path / "admin"]
    with first.read() as repositories:
        assert [key.name for key in repositories.api_keys.all()] == ["admin", "admin-2"]
    first.close()
    second.close()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("make", [_make_ci, _open_session_of_anna])
def test_two_collectors_make_no_two_keys_of_one_name_or_person_at_once(database_url, make):
    """The second waits until the first has made its key; it then refuses the name, or finds the person's key."""
    first, second = Store.open(database_url), Store.open(database_url)

    def make_second():
        with contextlib.suppress(KeyNameTaken), second.write() as repositories:
            make(repositories)

    with ThreadPoolExecutor(1) as threads:
        with first.write() as repositories:
            make(repositories)
            making = threads.submit(make_second)
            eventually(lambda: is_waiting_for_lock(second) or making.done())
        making.result()
    with first.read() as repositories:
        assert len(repositories.api_keys.all()) == 1
    first.close()
    second.close()


def test_names_of_keys_tell_one_project_nothing_of_another(guarded):
    """Each may use a name that the other has; a key that acts in both may not, and is asked for the id to revoke."""
    root = guarded.key("admin", name="root")
    ours, theirs = guarded.key("admin", project="ours"), guarded.key("admin", project="theirs")
    body = {"name": "trainers", "scope": "ingest", "days": 30}
    made = [guarded.ask("POST", "/api/v1/keys", key, body=body) for key in (ours, theirs)]
    assert [answer.status for answer in made] == [200, 200]
    for key, name in ((root, "trainers"), (ours, "trainers"), (ours, "root")):
        assert guarded.ask("POST", "/api/v1/keys", key, body=body | {"name": name}).status == 409
    unclear = guarded.ask("DELETE", "/api/v1/keys/trainers", root)
    assert (unclear.status, "give the id of the key" in unclear.json()["detail"]) == (404, True)
    metrics = guarded.ask("GET", "/metrics", root).data.decode()
    assert metrics.count('rlvitals_key_expiry_timestamp_seconds{key="trainers"}') == 1
    assert guarded.ask("DELETE", "/api/v1/keys/trainers", ours).json()["id"] == made[0].json()["id"]
    assert guarded.ask("DELETE", f"/api/v1/keys/{made[1].json()['id']}", root).status == 200


def test_an_administrator_of_a_project_reaches_its_keys_only(guarded):
    """The administrator neither sees nor revokes the keys of other projects, and makes none for them."""
    guarded.key("admin", name="all")
    ours = guarded.key("admin", project="ours", name="ours")
    assert [item["name"] for item in guarded.ask("GET", "/api/v1/keys", ours).json()["items"]] == ["ours"]
    made = guarded.ask("POST", "/api/v1/keys", ours, body={"name": "t", "scope": "ingest"}).json()
    assert made["project"] == "ours"
    body = {"name": "u", "scope": "ingest", "project": "theirs"}
    assert guarded.ask("POST", "/api/v1/keys", ours, body=body).status == 403
    foreign, absent = (guarded.ask("DELETE", f"/api/v1/keys/{name}", ours) for name in ("all", "xyz"))
    assert foreign.status == absent.status == 404
    assert foreign.data.replace(b"'all'", b"'xyz'") == absent.data


@pytest.mark.parametrize("over_http", [False, True])
def test_the_command_makes_lists_and_revokes(guarded, database_url, monkeypatch, capsys, over_http):
    """In the database, or over HTTP with an administrator's key; the key alone goes to standard output."""
    where = ["--database", database_url]
    if over_http:
        monkeypatch.setenv("RLVITALS_API_KEY", guarded.key("admin"))
        where = ["--url", guarded.live.url]
    assert main(["keys", "create", "trainers", "--scope", "ingest", "--project", "ours", "--days", "30", *where]) == 0
    printed = capsys.readouterr()
    secret = printed.out.strip()
    assert "not shown again" in printed.err
    eventually(lambda: guarded.ask("GET", "/api/v1/runs", secret).status == 403)
    guarded.send(secret)
    assert main(["keys", "list", *where]) == 0
    listed = capsys.readouterr().out
    assert re.search(r"trainers +ingest +ours +active", listed)
    assert secret not in listed
    assert main(["keys", "revoke", "trainers", *where]) == 0
    eventually(lambda: guarded.ask("GET", "/api/v1/runs", secret).status == 401)
    assert main(["keys", "create", *where]) == 1
    assert main(["keys", "create", "x", *where]) == 1


@sqlite_only
def test_the_commands_send_the_key_of_the_environment(guarded, monkeypatch, capsys):
    """The variable is `RLVITALS_API_KEY`, as for trainers; without it the line names what to set."""
    monkeypatch.setenv("RLVITALS_API_KEY", guarded.key("admin"))
    guarded.send(guarded.secrets[0], run="shown")
    assert main(["runs", "--url", guarded.live.url]) == 0
    assert "shown" in capsys.readouterr().out
    monkeypatch.delenv("RLVITALS_API_KEY")
    assert main(["runs", "--url", guarded.live.url]) == 1
    assert "RLVITALS_API_KEY" in capsys.readouterr().err


@sqlite_only
def test_a_refused_first_key_names_the_command_that_makes_it(guarded, database_url, monkeypatch, capsys):
    """No key exists that one could set, and `keys create` asks the collector in `RLVITALS_URL`."""
    monkeypatch.setenv("RLVITALS_URL", guarded.live.url)
    create = ["keys", "create", "first", "--scope", "admin"]
    assert main(create) == 1
    printed = capsys.readouterr().err
    assert "run `rlvitals keys create` with --database, the database of this collector" in printed
    assert "RLVITALS_API_KEY" not in printed
    assert main([*create, "--database", database_url]) == 0
    monkeypatch.setenv("RLVITALS_API_KEY", capsys.readouterr().out.strip())
    eventually(lambda: main(["keys", "list"]) == 0)
    monkeypatch.setenv("RLVITALS_API_KEY", "rlv_of_another_collector")
    eventually(lambda: main(["keys", "list"]) == 1)
    assert "an administrator can make another one (the key in RLVITALS_API_KEY was sent)" in capsys.readouterr().err


def test_the_keys_of_a_project_are_bounded(store):
    """Each collector reads all keys each second. One that has ended gives way, and none that is in use."""

    def make(name, *, project="ours", expires_at=None, now=0.0):
        with store.write() as repositories:
            options = {"scope": Scope.READ, "project": project, "expires_at": expires_at, "author": AUTHOR, "now": now}
            return create_key(repositories, name=name, **options)[1].id

    with store.write() as repositories:
        for number in range(MAX_KEYS - 2):
            stored = StoredKey(
                id=f"k{number}", name=f"k{number}", scope="read", project="ours", hash=bytes(32),
                session_secret=bytes(32), created_at=0.0, created_by="a test",
            )  # fmt: skip
            repositories.api_keys.add(replace(stored, hash=number.to_bytes(32)))
    for name in ("first", "second"):
        make(name, expires_at=10.0)
    with pytest.raises(InvalidField, match="at most 1,000 keys in use; revoke one first"):
        make("third", now=9.0)
    make("of theirs", project="theirs", now=9.0)
    make("third", now=11.0)
    with store.read() as reading:
        names = [key.name for key in reading.api_keys.all()]
    assert ("first" in names, names[-3:], len(names)) == (False, ["second", "of theirs", "third"], MAX_KEYS + 1)
