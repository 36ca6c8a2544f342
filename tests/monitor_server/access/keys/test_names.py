"""Nobody can have a name that reads like the collector's or like another person's."""

import pytest

from monitor_server.access.keys.names import fold_name, is_reserved
from tests.databases import sqlite_only
from tests.monitor_server.access.conftest import Guarded


@pytest.mark.parametrize(
    "name",
    [
        "rlvitals", "RLvitals", "ｒｌｖｉｔａｌｓ", "rl\u0301vitals", "collector", "  Collector ", "the trainer",
        "retention", "configuration", "somebody", "first  start", "OpenID Connect", "RLVITALS_RULES_FILE", "rlv_abc",
        "link sent to ops", "root on the machine", "0123456789abcdef", "night shift (anna)", "night （anna）",
        "\u3164", "\ufe0f", "",
    ],
)  # fmt: skip
def test_names_of_other_authors_are_reserved(name):
    """The names are reserved in any case, width and spacing, and with invisible characters."""
    assert is_reserved(name)


@pytest.mark.parametrize("name", ["anna@example.org", "Anna Müller", "trainers", "collector-2", "李雷", "u-1", "0123"])
def test_ordinary_names_are_not(name):
    """People, addresses and machines."""
    assert not is_reserved(name)


@pytest.mark.parametrize("other", ["ANNA", "Ａnna", "a\u200dnna", "anna\ufe0f", "an\u3164na", " anna "])
def test_names_that_look_alike_are_equal_when_folded(other):
    """The second of two such names is marked."""
    assert fold_name(other) == fold_name("anna")


@sqlite_only
def test_no_key_gets_a_reserved_name(guarded):
    """An administrator of a project could else sign as retention, or as an administrator of all projects."""
    guarded.key("admin", name="Root")
    ours = guarded.key("admin", project="ours", name="ours")
    for name in ("retention", "rlvitals", "night shift (Root)", "root"):
        answer = guarded.ask("POST", "/api/v1/keys", ours, body={"name": name, "scope": "ingest"})
        assert (answer.status, answer.json()["error"]) == (409, "KeyNameTaken")
        assert "choose another name" in answer.json()["detail"]


@sqlite_only
def test_no_user_of_a_proxy_signs_as_the_collector(start_collector):
    """A header with such a name identifies nobody."""
    guarded = Guarded(start_collector(trusted_header="X-User", trusted_proxies="127.0.0.1"))
    assert guarded.ask("GET", "/api/v1/runs", headers={"X-User": "anna"}).status == 200
    assert guarded.ask("GET", "/api/v1/runs", headers={"X-User": "retention"}).status == 401
