"""Every route with no key, a foreign project's key, and a key of too small a scope; an unknown route fails the test."""

import pytest

from monitor_server.access import route_scopes
from monitor_server.access.callers import Scope
from monitor_server.access.route_scopes import ROUTES, Reach, check_routes, find_access
from monitor_server.app import create_app
from monitor_server.errors import UndeclaredRoute
from monitor_server.settings import Settings
from tests.databases import sqlite_only
from tests.monitor_server.access.conftest import Guarded

DASHBOARD = [
    ("GET", "/"),
    ("GET", "/compare"),
    ("GET", "/rules"),
    ("GET", "/runs/{run_id}"),
    ("GET", "/runs/{run_id}/responses"),
    ("GET", "/runs/{run_id}/alerts/{alert_id}"),
    ("GET", "/_dash-layout"),
    ("GET", "/_dash-dependencies"),
    ("POST", "/_dash-update-component"),
]
BODIES = {
    "/api/v1/ingest": {"schema_version": 1, "run": "r", "project": "theirs", "records": []},
    "/api/v1/sample": {},
    "/api/v1/alerts/{alert_id}/comments": {"text": "t"},
    "/api/v1/alerts/{alert_id}/judgement": {"is_right": True},
    "/api/v1/alerts/{alert_id}/actions": {"action": "stop"},
    "/api/v1/silences": {"kind": "plateau", "minutes": 1},
    "/api/v1/views": {"name": "n", "query": ""},
    "/api/v1/view": {"address": "/"},
    "/api/v1/rules": {"rule": {"name": "n", "condition": "absence", "signal": "s", "for_steps": 1}},
    "/api/v1/rules/apply": {"rules": []},
    "/api/v1/notifications/settings": {"version": 0, "settings": {}},
    "/api/v1/notifications/settings/versions/{version}/restore": {"version": 0},
    "/api/v1/retention": {"limits": {}, "seen": {}},
    "/api/v1/retention/preview": {"limits": {}},
    "/api/v1/keys": {"name": "n", "scope": "read"},
    "/api/v1/session": {"key": "rlv_wrong"},
}
PUBLIC = {
    ("POST", "/api/v1/session"), ("DELETE", "/api/v1/session"), ("GET", "/api/v1/session/methods"),
    ("GET", "/api/v1/session/oidc"), ("GET", "/api/v1/session/oidc/callback"), ("GET", "/healthz"), ("GET", "/readyz"),
    ("GET", "/sign-in"), ("GET", "/_dash-component-suites/{path:path}"), ("GET", "/assets/{path:path}"),
    ("GET", "/_favicon.ico"), ("GET", "/act/{token:path}"), ("POST", "/act/{token:path}"),
}  # fmt: skip
SMALLER = {
    Scope.INGEST: [Scope.READ, Scope.OPERATE],
    Scope.READ: [Scope.INGEST],
    Scope.OPERATE: [Scope.INGEST, Scope.READ],
    Scope.ADMIN: [Scope.INGEST, Scope.READ, Scope.OPERATE],
}


@pytest.fixture
def guarded(start_collector, scripted):
    """A collector with the dashboard."""
    return Guarded(start_collector(engine=scripted, dashboard="dashboard.app:attach"))


def described(guarded):
    """Return every route of the OpenAPI description, those that it leaves out, and the dashboard's."""
    document = guarded.ask("GET", "/openapi.json", guarded.key("read")).json()
    routes = [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]
    pages = [("GET", "/docs"), ("GET", "/openapi.json"), ("GET", "/act/{token:path}"), ("POST", "/act/{token:path}")]
    return [*routes, *pages, *DASHBOARD]


def declared(method, path):
    """Return the entry of the table for a route; a route without an entry fails the test."""
    path = path.replace("/projects/{name}", "/projects/{name:path}")
    assert (method, path) in ROUTES, f"{method} {path} is in no row of the table, and not in this test"
    return ROUTES[method, path]


def filled(path, run, alert):
    return (
        path.replace("{run_id}", run)
        .replace("{alert_id}", alert)
        .replace("{name}", "ours")
        .replace("{key}", "none")
        .replace("{silence_id}", "none")
        .replace("{rule_id}", "none")
        .replace("{view_id}", "none")
        .replace("{version}", "1")
    )


@pytest.fixture
def seeded(guarded):
    """A run of the project `ours` with an alert, and its ids."""
    admin = guarded.key("admin")
    run = guarded.send(admin, run="secret-run", project="ours", page=1.0)
    (alert,) = guarded.ask("GET", "/api/v1/alerts", admin).json()["items"]
    return run, alert["id"]


@sqlite_only  # an answer without the right key reads no other table
def test_every_route_needs_a_key(guarded, seeded):
    """Without a key, and with a wrong one, every route except the public ones answers 401 and nothing else."""
    for method, path in described(guarded):
        access = declared(method, path)
        for key in (None, "rlv_" + "x" * 43):
            answer = guarded.ask(method, filled(path, *seeded), key, body=BODIES.get(path))
            if (method, path) in PUBLIC:
                assert access.scope is None
                assert "secret-run" not in answer.data.decode()
            else:
                assert access.scope is not None
                assert answer.status == 401, (method, path, answer.data)
                assert answer.json()["error"] == "KeyRequired"
                assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert {route for route, access in ROUTES.items() if access.scope is None} == PUBLIC


@sqlite_only
def test_every_route_needs_its_scope(guarded, seeded):
    """A key of each smaller scope is answered 403, for any path."""
    keys = {scope: guarded.key(scope) for scope in Scope}
    for method, path in described(guarded):
        access = declared(method, path)
        for scope in SMALLER.get(access.scope, ()):
            answer = guarded.ask(method, filled(path, *seeded), keys[scope], body=BODIES.get(path))
            assert (answer.status, answer.json()["error"]) == (403, "ScopeTooSmall"), (method, path, scope)


@sqlite_only
def test_no_cache_keeps_what_a_route_answers(guarded, seeded):
    """A proxy in front, or the browser, would else show it to the next person, who may have no key at all."""
    admin = guarded.key("admin")
    assets = ("/_dash-component-suites/{path:path}", "/assets/{path:path}")
    asked = {path for method, path in [*described(guarded), *PUBLIC] if method == "GET" and path not in assets}
    for path in asked:
        for key in (admin, None):
            answer = guarded.ask("GET", filled(path, *seeded), key, preload_content=False)
            assert answer.headers["Cache-Control"] == "no-store", (path, answer.status)
            answer.close()


QUERIES = {
    "/api/v1/export": "?project=ours",
    "/api/v1/runs/groups": "?by=project",
    "/api/v1/runs/rows": "?group_by=project",
}


def test_no_route_tells_a_key_of_another_project_that_a_run_exists(guarded, seeded):
    """For a foreign and for a missing run or alert every route gives the same bytes, except for the id."""
    theirs = {scope: guarded.key(scope, project="theirs") for scope in Scope}
    for method, path in described(guarded):
        access = declared(method, path)
        if access.scope is None or path in ("/api/v1/stream", "/api/v1/ingest", "/api/v1/keys"):
            continue  # these have tests of their own
        key = theirs[access.scope]
        query = QUERIES.get(path, "")
        foreign = guarded.ask(method, filled(path, *seeded) + query, key, body=BODIES.get(path))
        text = foreign.data.decode()
        if access.reach in (Reach.RUN, Reach.ALERT, Reach.PROJECT):
            absent = guarded.ask(
                method, filled(path, "0" * 32, "f" * 32).replace("ours", "none") + query.replace("ours", "none"), key
            )
            assert foreign.status == absent.status == 404
            for found, placeholder in zip((*seeded, "ours"), ("0" * 32, "f" * 32, "none"), strict=True):
                text = text.replace(found, placeholder)
            assert text == absent.data.decode()
            assert sorted(foreign.headers) == sorted(absent.headers)
        elif access.reach is Reach.COLLECTOR:
            assert foreign.status == 403
        else:
            assert not [word for word in ("secret-run", *seeded) if word in text], (method, path)
            if access.reach is Reach.FILTERED and method == "GET" and "{" not in path:
                items = foreign.json()["items"]
                if path == "/api/v1/runs/rows":
                    items = [row["group"] or row["run"] for row in items]
                assert {item.get("project", item.get("name")) for item in items} <= {"theirs"}


@sqlite_only
def test_an_unknown_path_is_closed(guarded):
    """Without a key nobody learns which paths exist."""
    guarded.key("admin")
    for path in ("/nothing", "/api/v1/nothing", "/api", "/_dash-nothing", "/api/v1/runs/"):
        assert guarded.ask("GET", path).status == 401
    assert guarded.ask("GET", "/api/v1/nothing", guarded.key("read")).status == 404
    assert guarded.ask("PUT", "/api/v1/runs", guarded.key("read")).status == 405


@sqlite_only
def test_a_path_in_no_row_is_not_served_whatever_is_behind_it(start_collector):
    """Dash serves some paths that nobody has declared; every key gets the answer of a path that does not exist."""
    guarded = Guarded(start_collector(dashboard="dashboard.app:attach"))
    served, missing = "/_reload-hash", "/_reload-none"
    assert guarded.ask("GET", served).status == 404
    keys = {scope: guarded.key(scope) for scope in ("ingest", "read", "operate", "admin")} | {"none": None}
    for scope, key in keys.items():
        for method in ("GET", "POST", "DELETE"):
            body = {} if method == "POST" else None
            answers = [guarded.ask(method, path, key, body=body) for path in (served, missing)]
            assert {answer.status for answer in answers} == {{"none": 401, "ingest": 403}.get(scope, 404)}
            assert answers[0].data.replace(served.encode(), missing.encode()) == answers[1].data
    assert guarded.ask("GET", "/compare/", keys["read"]).status == 200


@sqlite_only
def test_a_path_with_a_line_end_behind_it_is_not_found(guarded, seeded):
    """The framework serves it like the path without it, which the table could take for another one; a proxy as well."""
    keys = [guarded.key("read"), guarded.key("admin")]
    before = guarded.ask("GET", "/api/v1/audit", keys[1]).json()
    for method, path in ROUTES:
        filled_in = filled(path, *seeded).replace("{name:path}", "ours")
        for key in keys:
            answer = guarded.ask(method, f"{filled_in}%0A", key, body=BODIES.get(path))
            assert (answer.status, answer.json()["error"]) == (404, "UnknownPath"), (method, path)
    assert guarded.ask("GET", "/api/v1/audit", keys[1]).json() == before


@sqlite_only
def test_a_method_without_a_row_is_refused_with_those_that_the_path_has(guarded):
    """No route decides about it: the table names its methods, and a row without parameters is the nearer one."""
    admin = guarded.key("admin")
    for method, path, allowed in [
        ("PATCH", "/api/v1/rules/apply", "POST"),
        ("PATCH", "/api/v1/rules/one", "DELETE, GET, PUT"),
        ("HEAD", "/api/v1/runs", "GET"),
        ("TRACE", "/healthz", "GET"),
        ("OPTIONS", "/", "GET"),
    ]:
        answer = guarded.ask(method, path, admin)
        assert (answer.status, answer.headers["Allow"]) == (405, allowed), (method, path)


def test_a_route_without_a_scope_ends_the_start(monkeypatch, tmp_path):
    """The author of a route must declare its scope."""
    with pytest.raises(UndeclaredRoute, match="GET /api/v1/new"):
        check_routes([("GET", "/api/v1/new"), ("GET", "/healthz")])
    missing = {route: access for route, access in ROUTES.items() if route != ("GET", "/api/v1/alerts")}
    monkeypatch.setattr(route_scopes, "ROUTES", missing)
    with pytest.raises(UndeclaredRoute, match="GET /api/v1/alerts"):
        create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    assert list(tmp_path.iterdir()) == []


def test_the_head_of_an_answer_needs_what_the_answer_needs():
    """Programs that watch whether an address is served ask for the head alone."""
    for path in ("/", "/healthz", "/api/v1/keys"):
        assert find_access("HEAD", path) == find_access("GET", path)


def test_what_no_route_serves_needs_a_key_that_reads():
    """The default of the table is closed."""
    access, parameters = find_access("TRACE", "/anything")
    assert (access.scope, parameters) == (Scope.READ, {})
