"""A key of one project cannot see, count, stream, send to or change anything of another."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.access.cursors import CURSOR_SECRET, hide, reveal
from monitor_server.api.routes import saved_views
from tests.live import eventually, listening
from tests.monitor_server.access.conftest import Guarded
from tests.sampled_responses import array, response

postgres_only = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
LISTS = ["/api/v1/runs", "/api/v1/alerts"]


@pytest.fixture
def two(guarded):
    """Two projects with a run and an alert each, and a key for each."""
    admin = guarded.key("admin")
    guarded.ours, guarded.theirs = (guarded.key("admin", project=name) for name in ("ours", "theirs"))
    guarded.run_ours = guarded.send(admin, run="a", project="ours", page=1.0)
    guarded.run_theirs = guarded.send(admin, run="b", project="theirs", page=1.0)
    wait_for_alerts(guarded, admin, count=2)
    return guarded


def wait_for_alerts(guarded, key, *, count):
    """Wait until so many alerts are open; a busy machine answers a batch before it projects it."""
    eventually(lambda: len(guarded.ask("GET", "/api/v1/alerts", key).json()["items"]) == count)


@pytest.mark.parametrize("path", LISTS)
def test_lists_hold_what_the_key_reaches(two, path):
    """This holds also where the run or the project of the other key is asked for by name."""
    for query in ("", "?limit=1", "?project=theirs", f"?run_id={two.run_theirs}"):
        if path == "/api/v1/alerts" and "project" in query:
            continue
        answer = two.ask("GET", path + query, two.ours).json()
        assert {item["project"] for item in answer["items"]} <= {"ours"}
        assert answer["next"] is None
    assert two.ask("GET", path + "?limit=1", two.ours).json()["items"]


def test_what_concerns_every_project_is_refused(two):
    """Metrics count the records of all."""
    assert two.ask("GET", "/metrics", two.ours).status == 403
    assert two.ask("GET", "/metrics", two.key("read")).status == 200


def test_readiness_counts_for_those_who_may_read_all(two):
    """Anybody learns whether the collector is ready, and only who reads every project how many runs are quarantined."""
    assert two.ask("GET", "/readyz").json() == {"status": "ok", "quarantined_runs": None, "failing_channels": None}
    assert two.ask("GET", "/readyz", two.ours).json()["quarantined_runs"] is None
    assert two.ask("GET", "/readyz", two.key("read")).json()["quarantined_runs"] == 0


def test_a_batch_of_another_project_is_refused(two):
    """Nothing is stored, whether there is such a run or not."""
    for run in ("b", "new"):
        body = {"schema_version": 1, "run": run, "project": "theirs", "records": [{"step": 9, "scalars": {"a": 1.0}}]}
        answer = two.ask("POST", "/api/v1/ingest", two.ours, body=body)
        assert (answer.status, answer.json()["error"]) == (403, "ScopeTooSmall")
        assert "RLVITALS_PROJECT" in answer.json()["detail"]
    names = [run["name"] for run in two.ask("GET", "/api/v1/runs", two.theirs).json()["items"]]
    assert names == ["b"]


def test_the_stream_carries_one_project(two):
    """Steps, alerts and runs of others do not come, and are not counted as dropped."""
    two.live.pool.headers["Authorization"] = f"Bearer {two.ours}"
    with listening(two.live) as events:
        two.send(two.theirs, run="c", project="theirs", steps=20, page=1.0)
        two.send(two.ours, run="d", project="ours", steps=2, page=1.0)
        seen = []
        while not (seen and seen[-1][0] == "step" and seen[-1][1]["step"] == 1):
            seen.append(next(events))
    two.live.pool.headers.clear()
    assert {kind for kind, _ in seen} <= {"run", "step", "alert"}
    text = json.dumps(seen)
    assert two.run_theirs not in text
    assert "theirs" not in text
    assert len({data["run_id"] for kind, data in seen if kind == "step"}) == 1


def test_cursors_tell_a_key_of_one_project_nothing_of_the_others(two):
    """The list of a project continues by its cursors, which are no numbers of all runs or alerts."""
    admin = two.key("admin")
    for run in ("c", "d", "e"):
        two.send(two.ours, run=run, project="ours", page=1.0)
    wait_for_alerts(two, admin, count=5)
    for path in LISTS:
        seen, cursors, query = [], [], "?limit=1"
        while True:
            part = two.ask("GET", path + query, two.ours).json()
            seen += [item["id"] for item in part["items"]]
            if part["next"] is None:
                break
            cursors.append(int(part["next"]))
            query = f"?limit=1&cursor={part['next']}"
        every = two.ask("GET", path, admin).json()["items"]
        assert seen == [item["id"] for item in every if item["project"] == "ours"]
        assert len(seen) == 4
        assert min(cursors) > 1_000
        assert int(two.ask("GET", path + "?limit=1", admin).json()["next"]) < 1_000


@given(st.integers(0, 2**56 - 1), st.binary(min_size=32, max_size=32))
def test_each_number_has_one_cursor_and_back(number, secret):
    """Each secret gives other cursors; without a secret, cursors are the numbers."""
    assert reveal(hide(number)) == number
    token = CURSOR_SECRET.set(secret)
    try:
        assert reveal(hide(number)) == number
        assert 0 <= hide(number) < 10**18
        assert 0 <= reveal(10**18 - 1) < 2**56
    finally:
        CURSOR_SECRET.reset(token)


@postgres_only
def test_the_stream_carries_one_project_also_from_another_collector(start_collector, scripted):
    """One collector projects both projects; a listener at the other receives only events of its own project."""
    reader, projector = start_collector(engine=scripted, role="web"), Guarded(start_collector(engine=scripted))
    relays = [live.app.state.collector.relay for live in (reader, projector.live)]
    eventually(lambda: all(relay.is_listening for relay in relays))
    admin, ours = projector.key("admin"), projector.key("read", project="ours")
    reader.app.state.collector.keys.read()
    reader.pool.headers["Authorization"] = f"Bearer {ours}"
    with listening(reader) as events:
        eventually(lambda: relays[1].is_watched_elsewhere)
        foreign = projector.send(admin, run="c", project="theirs", steps=20, page=1.0)
        own = projector.send(admin, run="d", project="ours", steps=2, page=1.0)
        seen = []
        while not (seen and seen[-1][0] == "step" and seen[-1][1]["step"] == 1):
            seen.append(next(events))
    assert {data["run_id"] for kind, data in seen if kind == "step"} == {own}
    assert foreign not in json.dumps(seen)
    assert "theirs" not in json.dumps(seen)


def test_a_project_is_deleted_and_exported_by_its_own_key(two):
    """For another project the answer is that there is none; asking for both at once is refused as well."""
    assert two.ask("DELETE", "/api/v1/projects/theirs?force=true", two.ours).status == 404
    assert two.ask("GET", "/api/v1/export?project=theirs", two.ours).status == 404
    assert two.ask("GET", "/api/v1/export?project=ours&project=theirs", two.ours).status == 404
    exported = two.ask("GET", "/api/v1/export?project=ours", two.ours)
    assert exported.status == 200
    assert b"theirs" not in exported.data
    assert two.ask("DELETE", "/api/v1/projects/ours?force=true", two.ours).json()["runs"] == [two.run_ours]
    assert two.ask("GET", f"/api/v1/runs/{two.run_theirs}", two.theirs).status == 200


def test_a_saved_view_belongs_to_the_project_of_its_key(two):
    """Two projects have views of one name, and neither sees or deletes the view of the other; the admin sees both."""
    saved = [
        two.ask("POST", "/api/v1/views", key, body={"name": " v ", "query": "a=1"}) for key in (two.ours, two.theirs)
    ]
    ours, theirs = (answer.json() for answer in saved)
    assert (ours["name"], ours["project"], theirs["project"]) == ("v", "ours", "theirs")
    again = two.ask("POST", "/api/v1/views", two.ours, body={"name": "v", "query": "b=2"}).json()
    assert (again["id"], again["query"]) == (ours["id"], "b=2")
    assert [each["id"] for each in two.ask("GET", "/api/v1/views", two.ours).json()["items"]] == [ours["id"]]
    everything = two.ask("GET", "/api/v1/views", two.key("read")).json()["items"]
    assert [each["query"] for each in everything] == ["a=1", "b=2"]
    assert two.ask("DELETE", f"/api/v1/views/{theirs['id']}", two.ours).json()["error"] == "UnknownView"
    assert two.ask("DELETE", f"/api/v1/views/{ours['id']}", two.ours).json()["query"] == "b=2"
    two.ask("DELETE", "/api/v1/projects/theirs?force=true", two.theirs)
    eventually(lambda: two.ask("GET", "/api/v1/views", two.key("read")).json()["items"] == [])


def test_a_view_that_its_author_has_not_seen_is_not_replaced(two):
    """Of saves at the same moment one is stored; who states what was seen replaces that alone."""

    def save(query, **seen):
        return two.ask("POST", "/api/v1/views", two.ours, body={"name": "v", "query": query} | seen)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: save(f"run={number}", seen=None), range(4)))
    (held,) = [answer.json() for answer in answers if answer.status == 200]
    assert {answer.json()["error"] for answer in answers if answer.status != 200} == {"SettingsConflict"}
    again = save("b=2", seen=held["saved_at"])
    assert (again.status, again.json()["id"]) == (200, held["id"])
    refused = save("c=3", seen=held["saved_at"])
    assert refused.status == 409
    assert "has saved a view 'v' meanwhile" in refused.json()["detail"]
    assert save("d=4").json()["query"] == "d=4"
    two.ask("DELETE", f"/api/v1/views/{held['id']}", two.ours)
    assert save("e=5", seen=held["saved_at"]).status == 200


def test_at_most_as_many_views_are_saved_as_one_can_find(two, monkeypatch):
    """One more is refused in words, and an existing view can be changed."""
    monkeypatch.setattr(saved_views, "MAX_VIEWS", 2)
    for name in ("a", "b"):
        assert two.ask("POST", "/api/v1/views", two.ours, body={"name": name, "query": ""}).status == 200
    assert two.ask("POST", "/api/v1/views", two.ours, body={"name": "b", "query": "x"}).status == 200
    refused = two.ask("POST", "/api/v1/views", two.ours, body={"name": "c", "query": ""})
    assert (refused.status, refused.json()["error"]) == (409, "TooManyViews")
    assert two.ask("POST", "/api/v1/views", two.theirs, body={"name": "c", "query": ""}).status == 200


def test_an_attribution_names_responses_as_the_key_sees_them(two):
    """Ids of responses are permuted for a key of one project, also where an answer refers to them."""
    other = {"token_ids": array([7, 8, 9, 5], "int32")}
    turns = [response(group=1, displacement=-0.5, kinds=["displaced"]), response(group=1, correct=False, **other)]
    records = [{"step": 5, "scalars": {"page": 1.0}, "responses": turns}]
    batch = {"schema_version": 2, "run": "a", "project": "ours", "records": records}
    assert two.ask("POST", "/api/v1/ingest", two.ours, body=batch).status == 200
    eventually(lambda: two.ask("GET", f"/api/v1/runs/{two.run_ours}", two.ours).json()["last_step"] == 5)
    for key in (two.ours, two.key("read")):
        found = two.ask("GET", f"/api/v1/runs/{two.run_ours}/response-pairs", key).json()
        (pair,), named = found["pairs"], [item["id"] for item in found["responses"]]
        assert [pair["displaced"], pair["response"]] == named


def test_a_silence_of_another_project_is_not_made_seen_or_ended(two):
    """A key of one project silences that project alone, also where it names nothing but a kind."""
    (alert,) = two.ask("GET", "/api/v1/alerts", two.theirs).json()["items"]
    named = {"alert_id": alert["id"], "run_id": two.run_theirs, "project": "theirs"}
    for name, value in named.items():
        refused = two.ask("POST", "/api/v1/silences", two.ours, body={name: value, "minutes": 5})
        assert refused.status in (403, 404), name
    own = two.ask("POST", "/api/v1/silences", two.ours, body={"kind": "scripted", "minutes": 5}).json()
    assert own["project"] == "ours"
    stages = [two.ask("GET", "/api/v1/alerts", key).json()["items"][0]["stage"] for key in (two.ours, two.theirs)]
    assert stages == ["silenced", "firing"]
    assert two.ask("GET", "/api/v1/silences", two.theirs).json()["items"] == []
    path = f"/api/v1/silences/{own['id']}/end"
    assert two.ask("POST", path, two.theirs, body={}).status == 404
    assert two.ask("POST", path, two.ours, body={}).json()["state"] == "ended"
    assert two.ask("POST", f"/api/v1/alerts/{alert['id']}/comments", two.ours, body={"text": "t"}).status == 404
    assert two.ask("GET", f"/api/v1/alerts/{alert['id']}/history", two.ours).status == 404


def test_the_author_of_a_silence_is_the_name_of_the_key(two):
    """The name that a person gives stands before it, in the history of the alert too."""
    (alert,) = two.ask("GET", "/api/v1/alerts", two.ours).json()["items"]
    body = {"alert_id": alert["id"], "minutes": 5, "by": "anna"}
    silence = two.ask("POST", "/api/v1/silences", two.ours, body=body).json()
    assert silence["created_by"].startswith("anna (")
    entries = two.ask("GET", f"/api/v1/alerts/{alert['id']}/history", two.ours).json()["items"]
    assert (entries[0]["change"], entries[0]["by"]) == ("silenced", silence["created_by"])
