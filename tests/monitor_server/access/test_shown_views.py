"""Somebody shows a view: a page of this dashboard. It reaches only streams whose key reaches its run or project."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.app import PAGES
from monitor_server.api.schemas.page_addresses import PAGE_ADDRESS, read_page_address
from tests.databases import sqlite_only
from tests.live import eventually, listening
from tests.monitor_server.access.conftest import Guarded

postgres_only = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
ELSEWHERE = [
    "//elsewhere.example/",
    "/\\elsewhere.example/",
    "/.//elsewhere.example/",
    "https://elsewhere.example/",
    "javascript:alert(1)",
    "data:text/html,x",
    "/api/v1/runs",
    "/api/v1/session",
    "/act/token",
    "/sign-in?next=/",
    "/docs",
    "/_dash-layout",
    "/assets/theme.js",
    "/runs/..",
    "/runs/%2e%2e/api/v1/session",
    "/runs/a/../../api/v1/session",
    "/runs/a/alerts/..",
    "/compare?run=%00",
    "/compare?run=../../docs",
    "/?run=a#fragment",
    "/?run=a b",
    "/?run=ä",
    '/?run="><script>',
    "/\n/elsewhere.example",
    "runs/a",
    "",
]


@pytest.fixture
def two(guarded):
    """Two projects with a run each, a key that operates each, and one that operates all."""
    admin = guarded.key("admin")
    guarded.run_ours = guarded.send(admin, run="a", project="ours", page=1.0)
    guarded.run_theirs = guarded.send(admin, run="b", project="theirs", page=1.0)
    guarded.ours, guarded.theirs = (guarded.key("operate", project=name) for name in ("ours", "theirs"))
    guarded.everything = guarded.key("operate", name="night shift")
    return guarded


def show(guarded, address, key=None, **more):
    """Show a view, and return the answer."""
    return guarded.ask("POST", "/api/v1/view", key, body={"address": address} | more)


def heard(guarded, key, shown, **query):
    """Return the views that a stream of a key carries while `shown` is called, up to one whose note is `the end`."""
    guarded.live.pool.headers["Authorization"] = f"Bearer {key}"
    with listening(guarded.live, **query) as events:
        guarded.live.pool.headers.clear()
        shown()
        found = []
        for kind, data in events:
            if kind == "view":
                if data["note"] == "the end":
                    return found
                found.append(data)
    raise AssertionError("the stream has ended")


@pytest.fixture
def unbounded(many_views, two):  # noqa: ARG001 - it comes first
    """A collector without the limit of views."""
    return two


def test_a_view_that_is_shown_comes_to_every_stream_that_is_open(unbounded):
    """Streams of other runs get it too; the answer has the whole address, and the audit log the page and the author."""
    address = f"/runs/{unbounded.run_ours}?signals=entropy&smoothing=0.9"

    def shown():
        answer = show(unbounded, address, unbounded.ours, note=" the entropy falls ", by="agent")
        assert answer.status == 200, answer.data
        assert answer.json()["url"] == unbounded.live.url + address
        assert answer.json()["project"] == "ours"
        assert show(unbounded, "/rules", unbounded.ours, note="the end").status == 200

    (view,) = heard(unbounded, unbounded.everything, shown, run_id="x")
    author = f"agent ({unbounded.ask('GET', '/api/v1/session', unbounded.ours).json()['name']})"
    assert {**view, "at": None} == {"address": address, "note": "the entropy falls", "by": author, "at": None}
    entries = unbounded.ask("GET", "/api/v1/audit", unbounded.secrets[0]).json()["items"]
    found = next(entry for entry in entries if entry["action"] == "view.show" and "runs" in entry["target"])
    assert (found["by"], found["target"], found["project"]) == (author, f"/runs/{unbounded.run_ours}", "ours")
    assert "entropy" not in json.dumps(entries)


def test_only_those_whose_key_reaches_a_view_hear_of_it(unbounded):
    """A view of a run belongs to its project, without a run to that of the key, of two projects to keys of all."""
    alert = {
        item["run_id"]: item["id"]
        for item in unbounded.ask("GET", "/api/v1/alerts", unbounded.everything).json()["items"]
    }
    ours, theirs = unbounded.run_ours, unbounded.run_theirs

    def shown():
        for address, key in (
            (f"/runs/{theirs}", unbounded.everything),
            (f"/runs/{theirs}/alerts/{alert[theirs]}", unbounded.theirs),
            (f"/compare?run={ours}&run={theirs}", unbounded.everything),
            ("/?project=theirs", unbounded.everything),
            ("/?sort=reward", unbounded.theirs),
            (f"/runs/{ours}/responses?from=1", unbounded.everything),
            (f"/compare?run={ours}", unbounded.everything),
            ("/?sort=name", unbounded.ours),
            (f"/runs/{ours}/alerts/{alert[ours]}", unbounded.ours),
        ):
            assert show(unbounded, address, key).status == 200
        assert show(unbounded, "/rules", unbounded.ours, note="the end").status == 200

    found = [view["address"] for view in heard(unbounded, unbounded.ours, shown)]
    assert found == [
        f"/runs/{ours}/responses?from=1", f"/compare?run={ours}", "/?sort=name", f"/runs/{ours}/alerts/{alert[ours]}",
    ]  # fmt: skip


def test_a_view_of_what_the_key_does_not_reach_is_answered_as_one_that_is_not_there(unbounded):
    """Runs and alerts of another project, and an alert beside a run that is not its own."""
    ours, theirs = unbounded.run_ours, unbounded.run_theirs

    def alerts():
        items = unbounded.ask("GET", "/api/v1/alerts", unbounded.everything).json()["items"]
        found = {item["run_id"]: item["id"] for item in items}
        return found if theirs in found else None

    alert = eventually(alerts)  # a receipt does not wait behind another run
    for address in (
        f"/runs/{theirs}",
        f"/runs/{theirs}/responses",
        f"/runs/{theirs}/alerts/{alert[theirs]}",
        f"/runs/{ours}/alerts/{alert[theirs]}",
        f"/compare?run={ours}&run={theirs}",
        f"/compare?r%75n={theirs}",
    ):
        foreign, absent = (
            show(unbounded, address.replace(theirs, run).replace(alert[theirs], found), unbounded.ours)
            for run, found in ((theirs, alert[theirs]), ("0" * 32, "f" * 16))
        )
        assert foreign.status == absent.status == 404, address
        answered = foreign.data.decode().replace(theirs, "0" * 32).replace(alert[theirs], "f" * 16)
        assert answered == absent.data.decode()
    mixed = show(unbounded, f"/runs/{ours}/alerts/{alert[theirs]}", unbounded.everything)
    assert mixed.json()["error"] == "UnknownAlert"


@sqlite_only
def test_an_address_that_is_no_page_of_the_dashboard_is_refused(unbounded):
    """Refused are other sites, scripts, paths that change or download, and any text that a browser would change."""
    for address in ELSEWHERE:
        answer = show(unbounded, address, unbounded.everything)
        assert (answer.status, answer.json()["error"]) == (422, "InvalidField"), address
        assert "address" in answer.json()["detail"]
        assert "must be the path of a page" in answer.json()["detail"]


@sqlite_only
def test_what_is_too_long_or_hidden_is_refused(unbounded):
    """Address and note are bounded, and neither the note nor the name can reverse the text beside it."""
    assert show(unbounded, "/?a=" + "b" * 3996, unbounded.everything).status == 200
    assert show(unbounded, "/?a=" + "b" * 3997, unbounded.everything).status == 422
    assert show(unbounded, "/", unbounded.everything, note="n" * 301).status == 422
    for text in ("a\nb", "a\x1b[2J", "a\u202eb", "a\x00"):
        for name in ("note", "by"):
            answer = show(unbounded, "/", unbounded.everything, **{name: text})
            assert (answer.status, answer.json()["error"]) == (422, "InvalidField")
            assert "must be one line of characters that can be seen" in answer.json()["detail"]
    assert show(unbounded, "/", unbounded.everything, note="<img src=x onerror=alert(1)>").status == 200
    assert show(unbounded, "/", unbounded.everything, more=1).status == 422


@sqlite_only
@pytest.mark.usefixtures("still_limits")
def test_a_key_cannot_flood_pages(two):
    """A key has 12 a minute and all keys 60, each with ten seconds' worth at once; the next gets a time to retry."""
    statuses = [show(two, "/", two.ours).status for _ in range(3)]
    assert statuses == [200, 200, 429]
    refused = show(two, "/", two.ours)
    assert refused.json()["error"] == "TooManyRequests"
    assert 1 <= int(refused.headers["Retry-After"]) <= 5
    assert "too many views were shown; try again in" in refused.json()["detail"]
    assert show(two, "/", two.theirs).status == 200


@sqlite_only
def test_the_whole_address_is_that_of_the_settings(start_collector, scripted):
    """Behind a proxy the setting has the public address; otherwise it is the address that the request used."""
    guarded = Guarded(start_collector(engine=scripted, public_url="https://rl.example.org/"))
    assert show(guarded, "/compare").json()["url"] == "https://rl.example.org/compare"


@sqlite_only
def test_who_comes_later_hears_of_no_earlier_view(unbounded):
    """A view is for the pages that are open."""
    assert show(unbounded, "/", unbounded.everything, note="before").status == 200
    assert heard(unbounded, unbounded.everything, lambda: show(unbounded, "/", unbounded.ours, note="the end")) == []


@postgres_only
@pytest.mark.usefixtures("many_views")
def test_a_view_crosses_collectors_and_keeps_to_its_project(start_collector, scripted):
    """It is shown at one collector; a listener at another receives the views that its key reaches."""
    reader, other = start_collector(engine=scripted, role="web"), Guarded(start_collector(engine=scripted))
    relays = [live.app.state.collector.relay for live in (reader, other.live)]
    eventually(lambda: all(relay.is_listening for relay in relays))
    admin, ours = other.key("admin"), other.key("operate", project="ours")
    run, foreign = (other.send(admin, run=name, project=name) for name in ("ours", "theirs"))
    reader.app.state.collector.keys.read()
    reader.pool.headers["Authorization"] = f"Bearer {ours}"
    with listening(reader, run_id="another") as events:
        eventually(lambda: relays[1].is_watched_elsewhere)
        for address in (f"/runs/{foreign}", "/", f"/runs/{run}"):
            assert show(other, address, admin, note="é", by="ann").status == 200
        kind, view = next(events)
    assert (kind, view["address"], view["note"]) == ("view", f"/runs/{run}", "é")


@given(st.from_regex(PAGE_ADDRESS, fullmatch=True))
def test_every_address_that_is_accepted_is_a_page_of_the_dashboard(address):
    """The collector does not import the dashboard, which has its own list of the paths of its pages."""
    try:
        page = read_page_address(address)
    except ValueError as error:
        assert "run= must be" in str(error)  # noqa: PT017 - the other outcome is checked below
        return
    found = PAGES.fullmatch(page.path)
    assert found is not None
    assert (found["run_id"],) == page.run_ids or found["run_id"] is None
    assert found["alert_id"] == page.alert_id


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/compare",
        "/compare/",
        "/rules",
        "/settings",
        "/runs/a",
        "/runs/a/",
        "/runs/a/responses",
        "/runs/a/alerts/b",
    ],
)
def test_every_page_of_the_dashboard_can_be_shown(path):
    """A page may have any query that a browser writes."""
    assert PAGES.fullmatch(path)
    query = "?signals=a%2Fb&view=1&text=x+y&where=reward:above:0.5&re=%5Ba%7Cb%5D(c)*'$!;@"
    assert read_page_address(path + query).path == path
