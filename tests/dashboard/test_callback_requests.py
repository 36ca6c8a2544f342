"""Requests to the dashboard: every refusal is located, and no request leads elsewhere."""

import itertools
import json
import re
from types import SimpleNamespace

import pytest
import urllib3
from fastapi.testclient import TestClient

from dashboard.ids import fleet as fleet_ids
from dashboard.pages.fleet import views
from dashboard.standalone import create_app
from monitor_server.settings import Settings
from tests.dashboard.callbacks import Callbacks
from tests.live import serving
from tests.standalone_dashboard import serving_dashboard

ASKED = {"id": "asked-address", "property": "data", "value": None}
PAGE = {
    "output": "page.children",
    "outputs": {"id": "page", "property": "children"},
    "inputs": [{"id": "address", "property": "pathname", "value": "/"}, ASKED],
    "state": [{"id": "address", "property": "href", "value": "http://127.0.0.1:8600/"}],
    "changedPropIds": ["address.pathname"],
}


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    """A collector with its dashboard."""
    database = tmp_path_factory.mktemp("collector") / "rlvitals.db"
    with serving(Settings(database_url=f"sqlite:///{database}", dashboard="dashboard.app:attach")) as live:
        yield live


def update(live, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return live.pool.request(
        "POST",
        f"{live.url}/_dash-update-component",
        body=content,
        headers={"Content-Type": "application/json"} | headers,
    )


def at(pathname):
    return PAGE | {"inputs": [{"id": "address", "property": "pathname", "value": pathname}, ASKED]}


@pytest.mark.parametrize("path", ["/assets/..%2f", "/assets/%2e%2e%2fapp.py", "/assets/", "/assets/none.js"])
def test_a_file_that_is_not_served_is_refused_in_the_one_shape(mounted, path):
    """The shape is that of every other error of the collector."""
    answer = mounted.pool.request("GET", f"{mounted.url}{path}")
    assert answer.status == 404
    assert answer.json().keys() == {"error", "detail"}
    assert answer.json()["error"] == "UnknownPath"


@pytest.mark.parametrize("href", ["http://[", "http://[::1", "//[x]/", 5, None])
def test_an_address_that_is_none_is_refused(mounted, href):
    """Before a page reads it."""
    state = [{"id": "address", "property": "href", "value": href}]
    answer = update(mounted, PAGE | {"state": state})
    assert answer.status == 422
    assert answer.json()["error"] == "InvalidField"


@pytest.mark.parametrize("asked", ["http://[", 5, {}])
def test_another_query_is_asked_for_by_an_address_alone(mounted, asked):
    """The page itself is drawn for the query of such an address."""
    body = PAGE | {"inputs": [PAGE["inputs"][0], ASKED | {"value": asked}], "changedPropIds": ["asked-address.data"]}
    assert update(mounted, body).status == 422
    body["inputs"][1]["value"] = f"{mounted.url}/?run=of-this-name"
    assert "of-this-name" in update(mounted, body).data.decode()


@pytest.mark.parametrize("retry", [5, "/", {}, {"href": None}, {"href": "http://["}, ["http://127.0.0.1/"]])
def test_a_page_is_asked_for_again_by_its_address_alone(mounted, retry):
    """Anything else is refused before a page reads it."""
    callbacks = mounted.pool.request("GET", f"{mounted.url}/_dash-dependencies").json()
    (callback,) = [one for one in callbacks if {"id": "retry-now", "property": "data"} in one["inputs"]]
    asked = {
        "output": callback["output"],
        "outputs": PAGE["outputs"],
        "inputs": [{"id": "retry-now", "property": "data", "value": retry}],
        "state": PAGE["inputs"][:1],
        "changedPropIds": ["retry-now.data"],
    }
    assert update(mounted, asked).status == 422
    asked["inputs"][0]["value"] = {"tries": 1, "href": f"{mounted.url}/?run=a"}
    assert "fleet-page" in update(mounted, asked).data.decode()


def test_an_answer_names_a_collector_that_does_not_answer(unused_port):
    """The browser shows this and asks again; the answer of a collector that answers has no such header."""
    with serving_dashboard(f"http://127.0.0.1:{unused_port}") as url:
        failed = update(SimpleNamespace(url=url, pool=urllib3.PoolManager()), PAGE)
        assert (failed.status, failed.headers["rlvitals-collector"]) == (200, "failing")


def test_an_answer_of_a_collector_that_answers_is_not_marked(mounted):
    """The mark would make the browser ask for ever."""
    assert "rlvitals-collector" not in update(mounted, PAGE).headers


@pytest.mark.parametrize(
    "path",
    [
        "os/path.py",
        "dash/dash.py",
        "dash/nonsense.js",
        "dash/../dash/dash.py",
        "dash/%2e%2e/dash.py",
        "nobody/x.js",
        "dash",
        "",
        "a%0d%0aSet-Cookie:%20x=1/b",
    ],
)
def test_a_script_that_is_not_registered_is_not_served(mounted, path):
    """No module of this process can be read through the address of a script."""
    answer = mounted.pool.request("GET", f"{mounted.url}/_dash-component-suites/{path}")
    assert (answer.status, answer.json().keys()) == (404, {"error", "detail"})


def test_a_registered_script_is_served_before_any_page(mounted):
    """A page that is open while the collector restarts loads the rest of its scripts."""
    path = "/_dash-component-suites/plotly/package_data/plotly.min.js"
    assert mounted.pool.request("GET", mounted.url + path).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"\xff",
        b"{",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        {},
        PAGE | {"output": "nobody.children"},
        PAGE | {"output": {"id": "page"}},
        PAGE | {"output": "live-state.title"},
        PAGE | {"outputs": {"id": "page", "property": "style"}},
        PAGE | {"outputs": []},
        PAGE | {"inputs": []},
        PAGE | {"inputs": PAGE["inputs"] * 2},
        PAGE | {"inputs": [{"id": "address"}]},
        PAGE | {"inputs": [[PAGE["inputs"][0]]]},
        PAGE | {"inputs": 5},
        PAGE | {"state": [None]},
        PAGE | {"changedPropIds": {"a": 1}},
        at(5),
        at(None),
        at(["/"]),
        {
            "output": "alert.children",
            "outputs": {"id": "alert", "property": "children"},
            "inputs": [{"id": "alert-refresh", "property": "data", "value": 1}],
            "state": [{"id": "live", "property": "data", "value": {"alert": {"$ne": 1}}}],
        },
    ],
    ids=map(str, itertools.count()),
)
def test_an_update_that_no_page_sends_is_refused(mounted, body):
    """The refusal has a status of the client and the one shape of errors."""
    answer = update(mounted, body)
    assert (answer.status, answer.json()["error"]) == (422, "InvalidField")


@pytest.mark.parametrize(
    "identity",
    [
        "..",
        "..%2fingest",
        "../ingest",
        "a%0d%0aX: y",
        "a\r\nX: y",
        "\x00",
        "é",
        "\ud800",
        "a?x=1",
        "a#b",
        "%2e%2e",
        "a" * 65,
    ],
    ids=ascii,
)
@pytest.mark.parametrize("pattern", ["/runs/{}", "/runs/a/alerts/{}"])
def test_an_id_leads_to_no_other_route(mounted, identity, pattern):
    """The dashboard asks the API only for the resources that a page names, and says that this one does not exist."""
    answer = update(mounted, at(pattern.format(identity)))
    assert answer.status == 200
    assert re.search(rb"No such (run|alert|page)", answer.data)


def test_components_of_a_pattern_are_given_as_a_list(mounted):
    """The buttons that test a channel share one callback."""
    button = {"id": {"type": "channel-test", "channel": "a"}, "property": "n_clicks", "value": None}
    tested = {
        "output": "channel-state.children",
        "outputs": {"id": "channel-state", "property": "children"},
        "inputs": [[button]],
        "state": [],
        "changedPropIds": [],
    }
    assert update(mounted, tested).status in {200, 204}
    assert update(mounted, tested | {"inputs": [[5]]}).status == 422
    assert update(mounted, tested | {"inputs": [button]}).status == 422


FOLLOWED = {"id": "compare-followed", "property": "data"}


@pytest.mark.parametrize(
    ("outputs", "is_known"),
    [
        (FOLLOWED, True),
        ([FOLLOWED], False),
        ([], False),
        (5, False),
        (FOLLOWED | {"property": "style"}, False),
        (FOLLOWED | {"id": {"type": "compare-chart", "signal": "a"}}, False),
        (FOLLOWED | {"more": "b"}, False),
    ],
    ids=map(str, itertools.count()),
)
def test_outputs_are_those_of_their_callback(mounted, outputs, is_known):
    """The refresh of a comparison has one, which the browser distributes among the charts."""
    callbacks = mounted.pool.request("GET", f"{mounted.url}/_dash-dependencies").json()
    (callback,) = [one for one in callbacks if [place["id"] for place in one["inputs"]] == ["compare-refresh"]]
    values = {place: [{**one, "value": None} for one in callback[place]] for place in ("inputs", "state")}
    asked = {"output": callback["output"], "outputs": outputs, **values, "changedPropIds": []}
    assert update(mounted, asked).status in ({200, 204} if is_known else {422})


def test_what_ends_a_callback_is_in_the_log(mounted, caplog):
    """The log shows the operator of the collector where it failed; the page shows that it failed."""
    callbacks = mounted.pool.request("GET", f"{mounted.url}/_dash-dependencies").json()
    (callback,) = [one for one in callbacks if one["output"].startswith("..compare-body.children")]
    body, signals = (
        {"id": f"compare-{name}", "property": part} for name, part in (("body", "children"), ("signals", "options"))
    )
    inputs = [{**place, "value": None} for place in callback["inputs"]]
    inputs[0]["value"] = [{"no": "id"}]
    asked = {
        "output": callback["output"],
        "outputs": [body, signals],
        "inputs": inputs,
        "state": [],
        "changedPropIds": [],
    }
    assert update(mounted, asked).status == 500
    (record,) = [record for record in caplog.records if record.name == "dashboard.app"]
    assert (record.levelname, record.exc_info[0]) == ("ERROR", TypeError)


def test_only_a_signal_with_a_name_is_saved(mounted):
    """Nothing is saved before a button is clicked, and a name that is no text is refused."""

    def export(asked):
        return update(
            mounted,
            {
                "output": "workspace-download.data",
                "outputs": {"id": "workspace-download", "property": "data"},
                "inputs": [{"id": "workspace-exported", "property": "data", "value": asked}],
                "state": [{"id": "live", "property": "data", "value": {"run": "a", "title": "a"}}],
                "changedPropIds": ["workspace-exported.data"],
            },
        ).status

    assert export(None) in {200, 204}
    assert [export(asked) for asked in ({"signal": 5}, {}, [], "a")] == [422] * 4


def test_an_acknowledgement_from_a_foreign_page_is_refused(mounted):
    """Dash's route changes something, too."""
    assert update(mounted, PAGE, Origin="http://evil.example").status == 403
    assert update(mounted, PAGE, **{"Content-Type": "text/plain"}).status == 415
    assert update(mounted, PAGE).status == 200


def test_pages_run_our_scripts_alone(mounted):
    """The policy names our address and the hashes of Dash's own two lines; no other script of a page runs."""
    answer = mounted.pool.request("GET", f"{mounted.url}/")
    policy = answer.headers.getlist("Content-Security-Policy")
    assert len(policy) == 1
    scripts = next(part for part in policy[0].split("; ") if part.startswith("script-src"))
    assert "'unsafe" not in scripts
    assert "'sha256-" in scripts
    assert "frame-ancestors 'none'" in policy[0]
    assert answer.headers["X-Frame-Options"] == "DENY"


def test_on_its_own_it_is_guarded_as_well(collector):
    """Names, origins, bodies and headers."""
    with TestClient(create_app(api_url=collector.url), base_url="http://127.0.0.1") as client:
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
        assert (
            client.post("/_dash-update-component", json=PAGE, headers={"Origin": "http://evil.example"}).status_code
            == 403
        )
        too_large = PAGE | {"changedPropIds": ["x" * 2**20]}
        assert client.post("/_dash-update-component", json=too_large).status_code == 413
        assert client.post("/_dash-update-component", json=PAGE).status_code == 200
        assert client.get("/").headers["X-Frame-Options"] == "DENY"


def test_a_view_of_a_page_that_was_loaded_before_an_upgrade_is_not_saved(mounted):
    """Such a page does not say which view it has seen, so that one of another person could be replaced."""
    asked = {"name": "mine", "query": "run=a", "replaces": False}
    *_, said = Callbacks(mounted.url, views).call("change", asked, None, None, by=fleet_ids.VIEW_TO_SAVE)
    assert said.endswith("load the page again.")
    assert mounted.get("/views")["items"] == []
