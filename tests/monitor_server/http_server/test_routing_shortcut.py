"""Direct routes: the same answers as through the framework, and everything else unchanged."""

import json

import pytest

from monitor_server.http_server.routing_shortcut import DirectRoutes
from monitor_server.settings import Settings
from tests.live import serving


def _post(live, body, **headers):
    return live.pool.request("POST", f"{live.url}/api/v1/ingest", body=body, headers=headers)


@pytest.fixture
def both(migrated_sqlite, tmp_path_factory, monkeypatch):
    """A collector with direct routes, and one whose every request goes through the framework."""
    urls = [migrated_sqlite(tmp_path_factory.mktemp(name)) for name in ("direct", "framework")]
    with serving(Settings(database_url=urls[0], dashboard="")) as direct:
        monkeypatch.setattr(
            "monitor_server.http_server.security.DirectRoutes",
            lambda app, _, *, handlers: DirectRoutes(app, {}, handlers=handlers),
        )
        with serving(Settings(database_url=urls[1], dashboard="")) as framework:
            yield direct, framework


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (json.dumps({"schema_version": 2, "run": "r", "records": [{"step": 1, "scalars": {"a": 1.0}}]}).encode(), {}),
        (json.dumps({"schema_version": 2, "run": ""}).encode(), {}),
        (b"no json", {}),
        (b"x", {"Content-Type": "text/plain"}),
        (b"x", {"Content-Encoding": "unknown"}),
    ],
)
def test_a_direct_route_answers_as_through_the_framework(both, body, headers):
    """A batch that is stored, and each kind of refusal, with the same status, headers and body."""
    direct, framework = (_post(live, body, **{"Content-Type": "application/json"} | headers) for live in both)
    assert direct.status == framework.status
    assert direct.data == framework.data
    skipped = {"date", "x-request-id"}
    assert {key.lower(): value for key, value in direct.headers.items() if key.lower() not in skipped} == {
        key.lower(): value for key, value in framework.headers.items() if key.lower() not in skipped
    }


def test_other_methods_of_a_direct_route_are_refused_by_the_framework(both):
    """A GET of the path is answered as before."""
    answers = [live.pool.request("GET", f"{live.url}/api/v1/ingest") for live in both]
    assert {answer.status for answer in answers} == {405}
    assert answers[0].data == answers[1].data
