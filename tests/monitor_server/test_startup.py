"""Start and end: one clear line and a status for a failure, no traceback, and no partial result."""

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3
from sqlalchemy import Engine, event

from monitor_server.app import create_app
from monitor_server.commands.main import main
from monitor_server.errors import StartupError
from monitor_server.settings import Settings
from monitor_server.store import migrations
from monitor_server.store.database import Store
from monitor_server.store.sqlite import connections
from tests import warm
from tests.live import eventually
from tests.ports import reserved_port

VERSIONS = Path(*migrations.__path__) / "versions"


@pytest.fixture
def refused(monkeypatch, capsys):
    """Call `rlvitals serve`, which must end with status 1 and one line on standard error that says why."""

    def refused(*arguments, says):
        monkeypatch.setenv("RLVITALS_DASHBOARD", "")
        assert main(["serve", *arguments]) == 1
        output = capsys.readouterr()
        (line,) = output.err.strip().splitlines()
        assert line.startswith("rlvitals: ")
        assert all(part in line for part in says), line
        assert output.out == ""

    return refused


def test_a_taken_port_is_reported_in_one_line(refused, tmp_path):
    """The line has the address and the setting to change; no database is left behind."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused("--port", port, "--database", f"sqlite:///{tmp_path}/x.db", says=[port, "in use", "--port"])
    assert list(tmp_path.iterdir()) == []


def test_a_newer_database_is_left_alone(refused, tmp_path):
    """A database migrated by a later version is named, with both versions, and not touched."""
    database = tmp_path / "newer.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
        connection.execute("CREATE TABLE detector_states (run_id TEXT)")
    connection.close()
    newest = max(VERSIONS.glob("0*.py")).stem.partition("_")[0]
    says = ["newer", "9999", newest, "upgrade rlvitals"]
    refused("--port", "0", "--database", f"sqlite:///{database}", says=says)
    with sqlite3.connect(database) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    connection.close()
    assert tables == [("alembic_version",), ("detector_states",)]


@pytest.mark.parametrize(
    ("database", "says"),
    [
        ("sqlite:////proc/rlvitals.db", "unable to open"),
        ("sqlite:////nowhere/at/all.db", "unable to open"),
        ("sqlite:////etc", "unable to open"),
        ("sqlite:////etc/hostname", "not a database; it must be a database of rlvitals or not be there yet"),
        ("mysql+nothing://x", "RLVITALS_DATABASE_URL"),
        ("rubbish", "RLVITALS_DATABASE_URL"),
    ],
)
def test_an_unusable_database_is_reported_in_one_line(refused, database, says):
    """No permission, no folder, a folder, another file, another URL: each names itself."""
    refused("--port", "0", "--database", database, says=[says])


def test_a_read_only_database_is_reported_in_one_line(refused, tmp_path):
    """A database file that cannot be written is refused at the start, even where nothing is to migrate."""
    Store.open(f"sqlite:///{tmp_path / 'x.db'}").close()
    if os.geteuid() == 0:
        uri = f"sqlite:///file:{tmp_path / 'x.db'}?mode=ro&uri=true"
    else:
        (tmp_path / "x.db").chmod(0o400)
        uri = f"sqlite:///{tmp_path / 'x.db'}"
    refused("--port", "0", "--database", uri, says=["cannot be opened for writing"])


def test_a_server_that_is_not_there_is_reported_with_what_to_check(refused):
    """The advice is that for a server, and not that for a file."""
    with reserved_port() as port:
        url = f"postgresql+psycopg://somebody@127.0.0.1:{port}/x"
        refused("--port", "0", "--database", url, says=["refused", "check that the server runs", "user, password"])


def test_a_database_that_somebody_holds_is_reported_in_one_line(refused, monkeypatch, tmp_path):
    """The message does not blame its folder; the holder may be a second collector that migrates."""
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_SECONDS", 0.01)
    url = f"sqlite:///{tmp_path / 'x.db'}"
    Store.open(url).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused("--port", "0", "--database", url, says=["is locked", "another program holds it"])


def test_a_full_disk_is_reported_with_what_to_free(refused, tmp_path):
    """The message does not blame the file or its folder, which an upgrade that finds no room has left as they were."""

    def be_full(connection, _):
        connection.execute("PRAGMA max_page_count = 4")

    event.listen(Engine, "connect", be_full)
    try:
        says = ["disk is full; the disk of the database", "SQLITE_TMPDIR", "nothing was changed"]
        refused("--port", "0", "--database", f"sqlite:///{tmp_path / 'x.db'}", says=says)
    finally:
        event.remove(Engine, "connect", be_full)


@pytest.mark.parametrize(
    ("name", "value"), [("PORT", "99999"), ("PORT", "eighty"), ("STALL_FACTOR", "-1"), ("LOG_LEVEL", "loud")]
)
def test_a_setting_out_of_range_is_reported_in_one_line(refused, monkeypatch, name, value):
    """The line names the variable."""
    monkeypatch.setenv(f"RLVITALS_{name}", value)
    refused(says=[f"RLVITALS_{name}"])


def test_a_variable_that_no_setting_reads_is_named_in_the_log(refused, monkeypatch, caplog):
    """A misspelt limit would otherwise keep data that somebody wants to be removed."""
    monkeypatch.setenv("RLVITALS_RUN_DAY", "30")
    refused("--port", "0", "--database", "rubbish", says=["RLVITALS_DATABASE_URL"])
    (line,) = caplog.messages
    assert line == "no setting is called RLVITALS_RUN_DAY, so it has no effect; did you mean RLVITALS_RUN_DAYS?"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_collector_cleanly(tmp_path, number):
    """It prints its address in one line, ends while a stream is open, and leaves no traceback."""
    database = f"sqlite:///{tmp_path}/x.db"
    readable, writable = os.pipe()
    with open(readable) as output:  # noqa: PTH123 - a descriptor, not a path
        environment = os.environ | {"RLVITALS_DASHBOARD": ""}
        arguments = ["-m", "monitor_server", "serve", "--port", "0", "--database", database]
        process = warm.start(arguments, env=environment, stdout=writable)
        os.close(writable)
        try:
            url = output.readline().split(" on ")[1].split(" ")[0]
            with urllib3.PoolManager(retries=False) as pool:
                eventually(lambda: _is_ready(pool, url))
                stream = pool.request("GET", f"{url}/api/v1/stream", preload_content=False)
                assert stream.readline() == b": listening\n"
                os.kill(process.pid, number)
                assert process.wait(timeout=120) in (0, -signal.SIGTERM)
                stream.close()
            assert output.read() == ""
        finally:
            process.kill()


def test_a_full_disk_of_standard_output_keeps_no_collector_from_serving(tmp_path, unused_port):
    """Only its address would be printed there; Ctrl-C ends it with status 0."""
    arguments = [
        "-m",
        "monitor_server",
        "serve",
        "--port",
        f"{unused_port}",
        "--database",
        f"sqlite:///{tmp_path}/x.db",
    ]
    with Path("/dev/full").open("w") as full:
        process = warm.start(arguments, env=os.environ | {"RLVITALS_DASHBOARD": ""}, stdout=full.fileno())
    try:
        with urllib3.PoolManager(retries=False) as pool:
            eventually(lambda: _is_ready(pool, f"http://127.0.0.1:{unused_port}"))
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()


def _is_ready(pool, url):
    try:
        return pool.request("GET", f"{url}/readyz").status == 200
    except urllib3.exceptions.HTTPError:
        return False


def test_without_the_dashboard_the_api_works(start_collector, caplog):
    """A dashboard that is not installed costs one line in the log."""
    live = start_collector(dashboard="no_such_dashboard.app:attach")
    assert live.get("/runs")["items"] == []
    (line,) = [record for record in caplog.records if record.name == "monitor_server.app"]
    assert "no_such_dashboard" in line.message


def test_a_name_of_the_collector_that_no_host_matches_ends_the_start(database_url):
    """Before, the collector started, and refused every request by this name."""
    with pytest.raises(StartupError, match="RLVITALS_ALLOWED_HOSTS must be names"):
        create_app(Settings(database_url=database_url, dashboard="", allowed_hosts="https://vitals.example.org"))


@pytest.mark.parametrize("dashboard", ["json", "json:attach", ":attach"])
def test_a_dashboard_that_is_no_function_ends_the_start_in_words(database_url, dashboard):
    """The line names the variable."""
    with pytest.raises(StartupError, match="RLVITALS_DASHBOARD must be module:function"):
        create_app(Settings(database_url=database_url, dashboard=dashboard))


ADDRESSES = []


def attach(_app, *, api_url):
    """Stand in the place of the dashboard, and keep the address that it is given."""
    ADDRESSES.append(api_url)


@pytest.mark.parametrize(
    ("host", "address"),
    [("::1", "http://[::1]:8600"), ("::", "http://127.0.0.1:8600"), ("10.0.0.7", "http://10.0.0.7:8600")],
)
def test_the_dashboard_reaches_a_collector_on_any_host(database_url, host, address):
    """The address of an IPv6 host needs brackets; without them every page was an error."""
    create_app(Settings(database_url=database_url, host=host, port=8600, dashboard=f"{__name__}:attach"))
    assert ADDRESSES.pop() == address


def test_a_host_that_cannot_be_a_name_is_reported_in_one_line(tmp_path, capsys):
    """A shell may pass bytes that are no text, or a name with a part that is too long."""
    for host in ("\udcff", "a" * 300):
        assert main(["serve", "--host", host, "--port", "0", "--database", f"sqlite:///{tmp_path / 'a.db'}"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "cannot listen on" in line
        assert "the host must be an address of this machine" in line


def test_an_address_of_another_machine_is_reported_with_the_addresses_that_can_be_used(tmp_path, capsys):
    """Another port would not help."""
    assert main(["serve", "--host", "192.0.2.1", "--database", f"sqlite:///{tmp_path / 'a.db'}"]) == 1
    line = capsys.readouterr().err
    assert "the host must be an address of this machine" in line
    assert "--port" not in line


def test_a_collector_on_sqlite_needs_no_library_of_another_extra(tmp_path):
    """`rlvitals[server]` has no driver of PostgreSQL; a module that imported it stopped every start."""
    extras = ("psycopg", "apprise", "PIL", "authlib", "pyarrow", "dash", "opentelemetry.sdk", "torch")
    code = f"""
import asyncio, sys
for name in {extras!r}: sys.modules[name] = None
from monitor_server.app import create_app
from monitor_server.settings import Settings
app = create_app(Settings(database_url="sqlite:///new.db", dashboard=""))
async def work():
    async with app.router.lifespan_context(app):
        await app.state.collector.write("r", lambda repositories: repositories.probe())
asyncio.run(work())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
