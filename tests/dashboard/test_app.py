"""The dashboard mounted on a real collector: its answers, the requests that it leaves to its host, and its pages."""

import asyncio
import gzip
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import plotly
import pytest
from dash import no_update
from dash.development.base_component import Component
from fastapi import FastAPI
from fastapi.testclient import TestClient
from plotly.offline import get_plotlyjs_version
from sqlalchemy import delete
from starlette.responses import PlainTextResponse

from dashboard.app import attach
from dashboard.components.run.labels import find_tag_problem
from dashboard.ids import frame as frame_ids
from dashboard.ids import run as run_ids
from dashboard.page_delivery.own_files import PLOTLY
from dashboard.pages.compare.page import compare_page
from dashboard.pages.fleet import page as fleet_pages
from dashboard.pages.fleet.page import fleet_page
from dashboard.pages.responses import responses_page
from dashboard.pages.rules.page import rules_page
from dashboard.pages.run.page import run_page
from dashboard.pages.settings.page import settings_page
from dashboard.settings import Settings
from dashboard.sign_in.required_keys import KEPT_SECONDS, RequiredKeys
from dashboard.standalone import create_app
from monitor_server.access.sessions import COOKIE, host_cookie
from monitor_server.store.tables import api_keys
from tests.dashboard.callbacks import Callbacks
from tests.live import serving
from tests.monitor_server.access.conftest import Guarded
from tests.store_connections import current_connection


def found(component, wanted):
    """Return the component with an id, or None."""
    if isinstance(component, list | tuple):
        return next((held for child in component if (held := found(child, wanted)) is not None), None)
    if not isinstance(component, Component):
        return None
    if getattr(component, "id", None) == wanted:
        return component
    return found(getattr(component, "children", None), wanted)


@pytest.mark.parametrize("path", ["/", "/runs/9fb8fbff657cd163", "/runs/9fb8fbff657cd163/", "/runs/a/alerts/b"])
def test_a_page_asked_for_first_comes_with_its_style(mounted, path):
    """A deep link works as the first request to the server."""
    answer = mounted.pool.request("GET", mounted.url + path)
    assert answer.status == 200
    style = mounted.pool.request(
        "GET", mounted.url + re.search(r'href="(/assets/page[^"]*css)"', answer.data.decode())[1]
    )
    assert "--canvas" in style.data.decode()
    assert "immutable" in style.headers["Cache-Control"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nonsense", 404),
        ("GET", "/api/v1/ingest", 405),
        ("GET", "/nonsense", 404),
        ("GET", "/runs", 404),
        ("GET", "/runs/a/b", 404),
        ("POST", "/", 404),
    ],
)
def test_other_paths_stay_the_hosts_own(mounted, method, path, status):
    """A path that is no page is an error in the collector's shape, never a page with status 200."""
    answer = mounted.pool.request(method, mounted.url + path)
    assert answer.status in {status, 405}
    assert answer.json().keys() == {"error", "detail"}


def test_the_head_of_a_page_has_no_body(mounted):
    """Programs that watch whether a page is served ask for its head alone, over a connection that they use again."""
    for path in ("/", "/rules", "/healthz", "/readyz"):
        answer = mounted.pool.request("HEAD", mounted.url + path)
        assert (answer.status, answer.data) == (200, b"")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/docs", "/openapi.json"])
def test_the_hosts_pages_are_not_swallowed(mounted, path):
    """They were there first."""
    answer = mounted.pool.request("GET", mounted.url + path)
    assert answer.status == 200
    assert b"react-entry-point" not in answer.data


def test_dash_adds_nothing_to_the_hosts_reference(mounted):
    """OpenAPI describes the collector alone."""
    paths = mounted.pool.request("GET", f"{mounted.url}/openapi.json").json()["paths"]
    assert not [path for path in paths if "dash" in path or path.startswith("/runs")]


def test_nothing_is_loaded_from_elsewhere(mounted):
    """No content delivery network, no web font."""
    html = mounted.pool.request("GET", f"{mounted.url}/").data.decode()
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", html)


def test_scripts_are_compressed_once_and_the_same(mounted):
    """The same bytes with and without compression, the second time from memory."""
    html = mounted.pool.request("GET", f"{mounted.url}/").data.decode()
    path = re.search(r'src="(/_dash-component-suites/[^"]*dash_renderer[^"]*)"', html)[1]
    plain = mounted.pool.request("GET", mounted.url + path, headers={"Accept-Encoding": "identity"}).data
    for _ in range(2):
        answer = mounted.pool.request(
            "GET", mounted.url + path, headers={"Accept-Encoding": "gzip"}, decode_content=False
        )
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(answer.data) == plain
        assert len(answer.data) < 0.5 * len(plain)


def test_updates_of_pages_are_compressed_and_the_same(mounted):
    """The rows of a large fleet are a tenth of their size on the wire."""
    answers = [
        mounted.pool.request(
            "GET", f"{mounted.url}/_dash-dependencies", headers={"Accept-Encoding": encoding}, decode_content=False
        )
        for encoding in ("gzip", "identity")
    ]
    assert answers[0].headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(answers[0].data) == answers[1].data


def test_own_scripts_are_one_file_that_a_browser_keeps(mounted):
    """Its address changes with its content."""
    html = mounted.pool.request("GET", f"{mounted.url}/").data.decode()
    (path,) = set(re.findall(r'<script src="(/assets/page[^"]*)"', html))
    script = mounted.pool.request("GET", mounted.url + path)
    assert "arrangeFleet" in script.data.decode()
    assert "immutable" in script.headers["Cache-Control"]


def test_charts_load_the_small_bundle_of_plotly(mounted):
    """It has the version of Dash, in a third of its bytes; a page that begins with a chart loads it early."""
    sent = mounted.pool.request("GET", mounted.url + PLOTLY, headers={"Accept-Encoding": "gzip"}, decode_content=False)
    script = gzip.decompress(sent.data)
    assert f"plotly.js (basic - minified) v{get_plotlyjs_version()}".encode() in script[:200]
    whole = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    assert len(script) < whole.stat().st_size / 3
    held = mounted.pool.request("GET", mounted.url + PLOTLY, headers={"If-None-Match": sent.headers["ETag"]})
    assert (held.status, held.data) == (304, b"")
    for path, kind in (("/runs/0000", '<script async src="{}"'), ("/", '<link rel="prefetch" as="script" href="{}"')):
        assert kind.format(PLOTLY) in mounted.pool.request("GET", mounted.url + path).data.decode()


@pytest.mark.parametrize("path", [PLOTLY, "/assets/style.css", "/assets/sign_in.js", "/assets/favicon.svg"])
def test_a_browser_keeps_the_files_in_which_no_data_is(mounted, path):
    """For some minutes, and longer if the file is still the same; an address without a file is not remembered."""
    sent = mounted.pool.request("GET", mounted.url + path)
    held = mounted.pool.request("GET", mounted.url + path, headers={"If-None-Match": sent.headers["ETag"]})
    assert (sent.status, held.status) == (200, 304)
    for answer in (sent, held):
        assert answer.headers["Cache-Control"].startswith("public, max-age=600")
    absent = mounted.pool.request("GET", f"{mounted.url}/assets/absent.js")
    assert (absent.status, absent.headers["Cache-Control"]) == (404, "no-store")


def test_an_unknown_script_stays_an_error(mounted):
    """The dashboard serves only scripts that exist."""
    answer = mounted.pool.request("GET", f"{mounted.url}/_dash-component-suites/dash/nonsense.js")
    assert answer.status == 404


def test_two_dashboards_live_in_one_process(collector):
    """There is no global state: the second one has as many callbacks as the first one."""
    counts = []
    for _ in range(2):
        app = FastAPI()
        attach(app, api_url=collector.url)
        with TestClient(app) as client:
            counts.append(len(client.get("/_dash-dependencies").json()))
    assert counts[0] == counts[1] > 0


def test_the_fleet_page_of_no_runs_tells_how_to_connect(mounted, texts):
    """The page shows the address that it was given."""
    page = asyncio.run(fleet_page(mounted.url, "http://here:8600"))
    assert 'trainer_hooks.connect("http://here:8600", run="my-run")' in " ".join(texts(page))


def test_the_fleet_page_counts_every_run(mounted, texts):
    """Its rows are read once the table is there."""
    for index in range(3):
        mounted.run(run=f"run-{index}", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    page = asyncio.run(fleet_page(mounted.url, ""))
    assert texts(page)[-5:-3] == ["3 runs", "3 running"]


def test_the_fleet_page_counts_no_runs_after_the_last_one_was_deleted(mounted, texts):
    """A page that has shown none keeps its words about connecting a trainer."""
    fleet = Callbacks(mounted.url, fleet_pages)
    summary, count, *_ = fleet.call("refresh", 1, 1, ["p"], None)
    assert (texts(summary), count) == (["0 runs"], 0)
    assert fleet.call("refresh", 1, 0, [], None) == (no_update,) * 5


def test_the_run_page_draws_what_the_collector_holds(mounted, run_name):
    """The figure's points are the values that were sent, NaN as a gap and a mark."""
    values = [0.25, 0.5, "NaN", 1.0]
    run_id = mounted.run(
        run=run_name, records=[{"step": step, "scalars": {"grad/norm": value}} for step, value in enumerate(values)]
    )
    page = asyncio.run(run_page(mounted.url, run_id))
    traces = {(t["meta"]["role"], t["meta"].get("signal")): t for t in found(page, run_ids.FIGURE).figure["data"]}
    assert traces["line", "grad/norm"]["y"] == [0.25, 0.5, None, 1.0]
    assert traces["marks", "grad/norm"]["x"] == [2]
    assert found(page, frame_ids.LIVE).data["run"] == run_id


def test_every_section_of_the_settings_is_drawn(mounted, texts):
    """Each section is read from the collector; a section that may not be read would show "Not shown"."""
    shown = texts(asyncio.run(settings_page(mounted.url)))
    assert {"Keys", "Notifications", "Projects", "Retention", "Changes"} <= set(shown)
    assert "Not shown" not in " ".join(shown)


def test_the_settings_ask_once_who_the_caller_is(mounted, caplog):
    """The projects and the retention both depend on it."""
    with caplog.at_level("INFO", logger="httpx2"):
        asyncio.run(settings_page(mounted.url))
    asked = [record.getMessage() for record in caplog.records]
    assert len([text for text in asked if "/api/v1/session" in text]) == 1


@pytest.mark.parametrize(
    ("tags", "problem"),
    [(["x" * 64, "y"], None), (["x" * 65], "has 65: shorten it"), ([f"{n}" for n in range(33)], "these are 33")],
)
def test_a_tag_that_the_collector_refuses_is_named_before(mounted, run_name, tags, problem):
    """The collector refuses the same ones, by their number in the list."""
    run_id = mounted.run(run=run_name, records=[{"step": 0, "scalars": {"grad/norm": 1.0}}])
    answer = mounted.pool.request("PATCH", f"{mounted.url}/api/v1/runs/{run_id}", json={"tags": tags})
    assert answer.status == (200 if problem is None else 422)
    found_problem = find_tag_problem(tags)
    assert found_problem is None if problem is None else problem in found_problem


def test_the_comparison_and_the_responses_are_drawn(mounted, run_name, texts):
    """The run has one step and no response."""
    run_id = mounted.run(run=run_name, records=[{"step": 0, "scalars": {"grad/norm": 1.0}}])
    assert "Compare runs" in " ".join(texts(asyncio.run(compare_page(mounted.url, f"?run={run_id}"))))
    assert "Sampled responses" in texts(asyncio.run(responses_page(mounted.url, run_id)))


def test_the_rules_are_drawn(mounted, texts):
    """There is none yet."""
    assert "Rules" in texts(asyncio.run(rules_page(mounted.url)))


def test_an_unknown_run_is_named(mounted, texts):
    """The answer is no traceback."""
    assert "No run has the id 0000" in " ".join(texts(asyncio.run(run_page(mounted.url, "0000"))))


@pytest.mark.parametrize("page", [fleet_page("http://127.0.0.1:9", ""), run_page("http://127.0.0.1:9", "0000")])
def test_a_collector_that_is_down_is_reported_plainly(page, texts):
    """Port 9 (discard) has no listener here."""
    assert "The collector at http://127.0.0.1:9 does not answer" in " ".join(texts(asyncio.run(page)))


def test_on_its_own_it_serves_pages_and_health(collector):
    """Of the API it serves only what its pages ask for in the browser."""
    with TestClient(create_app(api_url=collector.url), base_url="http://127.0.0.1") as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        for path in ("/", "/compare", "/runs/a", "/healthz", "/assets/theme.js"):
            assert client.head(path).status_code == 200, path
        assert client.get("/api/v1/runs").status_code == 404


def test_on_its_own_every_address_leads_somewhere(start_collector):
    """The bar links to the reference of the API, and the page of a run to its alerts; a refusal keeps its status."""
    guarded = Guarded(start_collector(dashboard=""))
    key = guarded.key("admin", name="everything")
    with TestClient(create_app(api_url=guarded.live.url), base_url="http://127.0.0.1") as client:
        docs = client.get("/docs", follow_redirects=False)
        assert docs.headers["location"] == f"{guarded.live.url}/docs"
        address = "/api/v1/alerts?run_id=a&state=resolved"
        assert client.get(address).status_code == 401
        assert client.get(address, headers={"Authorization": f"Bearer {key}"}).json()["items"] == []
        incident = client.get("/api/v1/alerts/a/incident")
        assert (incident.status_code, incident.headers["Cache-Control"]) == (401, "no-store")


def test_cookies_of_other_programs_may_have_any_bytes(start_collector):
    """Programs at other ports of a host share its cookies, and each line of them counts."""
    guarded = Guarded(start_collector(dashboard="dashboard.app:attach"))
    guarded.send(guarded.key("ingest", project="ours"), run="seen")
    signed_in = guarded.ask("POST", "/api/v1/session", body={"key": guarded.key("read", name="reader")})
    session = signed_in.headers["Set-Cookie"].partition(";")[0]
    lines = [("Cookie", session.encode()), ("Cookie", "theme=déjà".encode())]
    with TestClient(create_app(api_url=guarded.live.url), base_url="http://127.0.0.1") as client:
        assert client.get("/api/v1/session", headers=lines).json()["name"] == "reader"
    document = guarded.ask("GET", "/", headers={"Cookie": f"theme=déjà; {session}"}).data.decode()
    assert "seen" in document
    assert document.endswith("</html>")


def test_on_its_own_it_does_not_answer_for_a_collector_that_is_away():
    """Else a page would take the restart of a collector for the sign-in of somebody else, and load itself again."""
    with TestClient(create_app(api_url="http://127.0.0.1:9"), base_url="http://127.0.0.1") as client:
        for path in ("session", "session/methods", "stream", "session%0A"):
            assert client.get(f"/api/v1/{path}").status_code == 502, path
        refused = client.post("/api/v1/session", json={"key": "rlv_any"})
        assert (refused.status_code, "does not answer" in refused.json()["detail"]) == (502, True)


def test_on_its_own_it_opens_no_collector_without_keys_to_other_machines(start_collector):
    """They would be administrators of a collector that only its own machine reaches."""
    guarded = Guarded(start_collector(dashboard=""))

    def served_at(host="192.0.2.1", url=guarded.live.url, **options):
        app = create_app(api_url=url, host=host, **options)
        return TestClient(app, base_url="http://127.0.0.1")

    with served_at() as client, served_at(insecure=True) as insecure, served_at("localhost") as local:
        proxied = served_at("127.0.0.1", allowed_hosts="vitals.example.org")
        for path in ("/", "/api/v1/session", "/api/v1/stream", "/assets/theme.js"):
            refused = client.get(path)
            assert proxied.get(path).text == refused.text
            assert (refused.status_code, "rlvitals keys create admin" in refused.text) == (503, True)
        assert client.get("/healthz").status_code == 200
        assert [each.get("/api/v1/session").status_code for each in (insecure, local)] == [200, 200]
        key = guarded.key("read")
        assert client.get("/").status_code == 200
        headers = {"Authorization": f"Bearer {key}"}
        assert [client.get("/api/v1/session", headers=each).status_code for each in ({}, headers)] == [401, 200]
    with served_at(url="http://127.0.0.1:9") as client:
        assert (client.get("/").status_code, client.get("/healthz").status_code) == (503, 200)


def test_a_collector_whose_database_was_made_anew_is_closed_to_other_machines_again(start_collector):
    """It needs no key until the first is made; while it is away, what is known of it holds."""
    guarded, now = Guarded(start_collector(dashboard="")), 0.0
    collector = guarded.live.app.state.collector
    guarded.key("read")
    guard = RequiredKeys(PlainTextResponse("page"), guarded.live.url, clock=lambda: now)
    client = TestClient(guard, base_url="http://127.0.0.1")
    assert client.get("/").text == "page"
    with collector.store.write():
        current_connection().execute(delete(api_keys))
    guarded.live.stop()
    port = urlsplit(guarded.live.url).port
    with serving(collector.settings, port=port) as live:
        now = KEPT_SECONDS
        assert "serves everybody without a key" in client.get("/").text
        Guarded(live).key("read")
        assert client.get("/").text == "page"
        now = 2 * KEPT_SECONDS
        live.stop()
    assert client.get("/").text == "page"
    with socket.create_server(("127.0.0.1", port)) as hanging:
        assert client.get("/").text == "page"
        hanging.setblocking(False)
        with pytest.raises(BlockingIOError):  # the next question comes after a second
            hanging.accept()


def test_one_page_waits_while_the_collector_does_not_answer_whether_it_needs_a_key():
    """It has needed one; the other pages are served at once and say that it is away."""
    now, questions = 0.0, []

    async def serve_two_pages():
        is_asked, is_back = asyncio.Event(), asyncio.Event()

        async def answer(reader, writer):
            questions.append(await reader.readuntil(b"\r\n\r\n"))
            if len(questions) == 2:
                is_asked.set()
                await is_back.wait()
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        nonlocal now
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            guard = RequiredKeys(PlainTextResponse("page"), f"http://127.0.0.1:{port}", clock=lambda: now)
            transport = httpx2.ASGITransport(guard)
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                assert (await client.get("/")).text == "page"
                now = KEPT_SECONDS
                waiting = asyncio.create_task(client.get("/"))
                await is_asked.wait()
                assert (await client.get("/")).text == "page"
                assert (len(questions), waiting.done()) == (2, False)
                is_back.set()
                assert (await waiting).text == "page"

    asyncio.run(serve_two_pages())


def test_a_collector_that_answers_something_else_is_not_called_away(start_collector):
    """The address may be wrong; whether it needs a key is not known."""
    live = start_collector(dashboard="")
    guard = RequiredKeys(PlainTextResponse("page"), f"{live.url}/wrong")
    refused = TestClient(guard, base_url="http://127.0.0.1").get("/")
    assert (refused.status_code, refused.text[:26]) == (503, "The collector answered 404")


def test_on_its_own_it_signs_out_while_the_collector_is_away():
    """Nothing else than the cookie holds a session."""
    with TestClient(create_app(api_url="http://127.0.0.1:9"), base_url="https://127.0.0.1") as client:
        for secure in (False, True):
            client.cookies.set(host_cookie(COOKIE, secure=secure), "signed", domain="127.0.0.1")
        assert client.delete("/api/v1/session").status_code == 200
        assert not client.cookies


def test_settings_are_read_from_the_environment(monkeypatch):
    """Other programs that ask the collector share RLVITALS_API_URL; other settings have the dashboard's prefix."""
    monkeypatch.setenv("RLVITALS_API_URL", "http://collector:8600")
    monkeypatch.setenv("RLVITALS_DASHBOARD_PORT", "9000")
    assert (Settings().api_url, Settings().port) == ("http://collector:8600", 9000)
