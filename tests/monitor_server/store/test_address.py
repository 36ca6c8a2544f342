"""The address of a database is checked before anything connects to it, and shown without its password."""

import pytest

from monitor_server.errors import DatabaseUnusable
from monitor_server.store.address import read_address, shown_url
from monitor_server.store.database import Store
from monitor_server.store.operations.inspection import inspect_database


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://rlvitals:hunter2@127.0.0.1:1/nowhere?connect_timeout=2",
        "postgresql+psycopg://rlvitals@127.0.0.1:1/nowhere?password=hunter2&connect_timeout=2",
        "nonsense://rlvitals:hunter2@nowhere",
        "postgresql+psycopg://rlvitals:p@hunter2@127.0.0.1/nowhere",
        "postgresql+psycopg://rlvitals:p@ss:hunter2@127.0.0.1/nowhere",
        "postgresql+psycopg://rlvitals:p@ss/hunter2@127.0.0.1/nowhere",
        "postgresql+psycopg://rlvitals:p@ss?hunter2@127.0.0.1/nowhere",
        "hunter2",
    ],
)
def test_an_error_of_the_database_hides_its_password(url):
    """The message has the address without the password, also where its @ was not written as %40."""
    for read in (Store.open, inspect_database):
        with pytest.raises(DatabaseUnusable) as raised:
            read(url)
        assert "hunter2" not in str(raised.value)
    assert "hunter2" not in shown_url(url)


def test_an_at_sign_in_a_password_is_said_to_be_written_otherwise():
    """The address would be read as one of another host."""
    with pytest.raises(DatabaseUnusable, match="write @ as %40"):
        read_address("postgresql+psycopg://rlvitals:p@ss@127.0.0.1/rlvitals")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////data/runs@home.db",
        "postgresql+psycopg://anna@lab:p%40ss@127.0.0.1/rlvitals",
        "postgresql+psycopg://anna@127.0.0.1/rlvitals?application_name=me@home",
        "postgresql://127.0.0.1/rlvitals",
    ],
)
def test_an_at_sign_elsewhere_is_taken(url):
    """In the name of a file, of a user or of a parameter it ends no password."""
    assert read_address(url).get_backend_name() in url


@pytest.mark.parametrize("url", ["postgres://a/b", "mysql://a/b", "postgresql+asyncpg://a/b", "postgresql://a:54x/b"])
def test_an_address_of_a_database_that_is_not_used_names_those_that_are(url):
    """The addresses: another program's database, an unsupported driver, and a port that is no number."""
    with pytest.raises(DatabaseUnusable, match=r"postgresql\+psycopg://user:password@host/database"):
        read_address(url)


def test_a_hidden_parameter_is_shown_as_a_hidden_password_is():
    """The first line of each start on Docker Compose has such an address."""
    assert shown_url("postgresql+psycopg://u:p@h/d?passfile=/x") == "postgresql+psycopg://u:***@h/d?passfile=***"
