"""The incident report of an alert: one HTML file, with all its data."""

import json
import math
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import psycopg
import pytest

from monitor_server.api.incident_report.content import Incident
from monitor_server.api.incident_report.page import page
from monitor_server.commands.main import main
from monitor_server.http_server.read_limits import MAX_REPORTS
from tests.live import eventually
from tests.sampled_responses import array, response

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def incident(start_collector, scripted):
    """A collector with a run of 60 steps whose entropy rises at step 30, that is paged at 36, and whose alert."""
    live = start_collector(engine=scripted)
    sampled = response(
        displacement=-0.6,
        displacements=array([-0.5, -0.125, 0.0], "float16"),
        mismatches=array([0.25, -math.inf, 0.0], "float16"),
        pieces=["<think>", HOSTILE, " tool", "!"],
    )
    records = []
    for step in range(60):
        scalars = {"page": float(step == 36), "entropy/mean": 0.3 if step < 30 else 0.9, "grad/norm": 1.0 + step % 3}
        scalars[HOSTILE] = "NaN" if step == 50 else 1.0
        records.append({"step": step, "scalars": scalars, "responses": [sampled]})
    live.send(run=HOSTILE, config={"lr": 1e-6, "note": HOSTILE}, records=records)
    (alert,) = eventually(lambda: live.get("/alerts")["items"])
    return live, alert


def _read(live, alert, query=""):
    answer = live.pool.request("GET", f"{live.url}/api/v1/alerts/{alert['id']}/incident{query}")
    assert answer.status == 200
    return answer, answer.data.decode()


def _data(html):
    carried = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert carried is not None
    return json.loads(carried[1])


def test_the_report_holds_what_the_api_returns_of_the_alert(incident):
    """Alert, run, phases, attribution and signals are equal to the answers of their own routes."""
    live, alert = incident
    data = _data(_read(live, alert)[1])
    run_id = alert["run_id"]
    assert data["schema_version"] == 2
    assert data["alert"] == alert
    assert data["attribution"] == live.get(f"/alerts/{alert['id']}/attribution")
    assert data["forecast"] == live.get(f"/runs/{run_id}/forecast")
    assert data["phases"] == live.get(f"/runs/{run_id}/phases")["items"]
    assert data["run"]["config"] == live.get(f"/runs/{run_id}")["config"]
    (series,) = live.get(f"/runs/{run_id}/series?signals=entropy/mean")["items"]
    assert series in [
        {**signal, "times": series.get("times")} if "times" in series else signal for signal in _bare(data)
    ]


def test_the_report_states_the_forecast_as_the_page_of_the_run_does(incident):
    """It counts rows, of which a trainer that logs every fifth step has 10 in 50 steps, and nothing is certain."""
    live, alert = incident
    horizon = {"within": 10, "probability": 0.9964, "base_rate": 0.0004}
    forecast = {"step": 59, "horizons": [horizon], "drivers": [], "model": "ratios", "fitted_on": "264 runs"}
    html = page(Incident.model_validate(_data(_read(live, alert)[1]) | {"forecast": forecast}))
    assert '<th class="number">within rows</th>' in html
    assert '<td class="number">&gt; 99 %</td><td class="number">&lt; 0.1 %</td>' in html


def test_the_report_tells_a_step_of_opening_from_the_step_of_the_severity(incident):
    """Another alert that opened as an info at step 20 was critical from step 36 on: a reader counts no lead from 20.

    A list of as many as are read says that there may be more.
    """
    live, alert = incident
    data = _data(_read(live, alert)[1])
    other = {**alert, "id": "other", "opened_step": 20, "severity_step": 36, "resolved_step": 40, "state": "resolved"}
    html = page(Incident.model_validate(data | {"alerts": [alert, other]}))
    (row,) = re.findall("<tr>.*?</tr>", html.split("Other alerts of the run")[1].split("</tbody>")[0])[1:]
    assert '<td class="number">20</td>' in row
    assert "critical</span> since step 36</td><td><b>scripted</b>, resolved at step 40: " in row
    assert "newest 200" not in html
    html = page(Incident.model_validate(data | {"alerts": [alert, *[other] * 199]}))
    assert re.findall("<h2>([^<]*) \\(among the newest 200\\)", html) == ["Other alerts of the run"]


def test_the_report_holds_the_title_and_what_people_wrote(incident):
    """The history has the opening first, and a comment with its author; the title stands beside the name."""
    live, alert = incident
    for method, path, body in (
        ("PATCH", f"/runs/{alert['run_id']}", {"title": "Night run"}),
        ("POST", f"/alerts/{alert['id']}/comments", {"by": "Ann", "text": "Rate halved.\nBetter now."}),
    ):
        assert live.pool.request(method, f"{live.url}/api/v1{path}", json=body).status == 200
    html = _read(live, alert)[1]
    assert "<title>scripted of Night run - rlvitals</title>" in html
    assert '<p class="muted">run Night run (&lt;/script&gt;' in html
    rows = html.split("<h2>History</h2>")[1].split("</tbody>")[0].split("<tr>")
    opened, commented = rows[2], rows[-1]
    assert '<td class="number">36</td>' in opened
    assert '<td>Commented by Ann</td><td class="said">Rate halved.\nBetter now.</td>' in commented
    assert _data(html)["history"] == live.get(f"/alerts/{alert['id']}/history")["items"]


def _bare(data):
    return [{name: value for name, value in signal.items() if value is not None} for signal in data["signals"]]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_reports_that_take_long_keep_no_other_reader_waiting(incident, database_url):
    """The database keeps all of them waiting, and a list is read meanwhile; one more than eight is refused."""
    live, alert = incident
    answers = []

    def ask():
        return live.pool.request("GET", f"{live.url}/api/v1/alerts/{alert['id']}/incident")

    askers = [threading.Thread(target=lambda: answers.append(ask())) for _ in range(MAX_REPORTS)]
    with psycopg.connect(database_url.replace("+psycopg", "")) as blocker:
        blocker.execute("LOCK TABLE responses IN ACCESS EXCLUSIVE MODE")
        for asker in askers:
            asker.start()
        eventually(lambda: live.app.state.collector.incident_reports.count == MAX_REPORTS)
        assert live.get("/silences")["items"] == []
        refused = ask()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["detail"].startswith("8 incident reports are being made")
        assert answers == []
    for asker in askers:
        asker.join()
    assert {answer.status for answer in answers} == {200}


def test_the_report_opens_alone_and_shows_every_text_as_text(incident):
    """The report is a download, loads nothing, and shows a hostile name, configuration or token as text."""
    live, alert = incident
    answer, html = _read(live, alert)
    assert answer.headers["Content-Type"].startswith("text/html")
    assert (
        answer.headers["Content-Disposition"] == f'attachment; filename="incident-{alert["kind"]}-{alert["id"]}.html"'
    )
    assert "default-src 'none'" in html
    assert html.count("<script") == html.count("</script>") == 1
    elements = Elements()
    elements.feed(html)
    assert elements.tags.isdisjoint({"img", "link", "iframe", "object", "a"})
    assert elements.attributes.isdisjoint({"src", "href", "onerror", "onload"})


class Elements(HTMLParser):
    """The names of all elements and attributes of a page, as a browser would read them."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), set()

    def handle_starttag(self, tag, attrs):
        """Note one element."""
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


def test_the_report_names_the_tokens_that_fell_and_those_that_differ_most(incident):
    """The largest difference comes first; a token with two equal values is not named."""
    html = _read(*incident)[1]
    fell = html.split("Tokens of its actions that fell most: ")[1].split("</p>")[0]
    assert [number.strip(" .,") for number in re.split("<code>.*?</code>", fell)] == ["", "-0.5", "-0.125"]
    differ = html.split("Tokens on which trainer and sampler differ most, in nats: ")[1].split("</p>")[0]
    assert [number.strip(" .,") for number in re.split("<code>.*?</code>", differ)] == ["", "-inf", "0.25"]
    assert "<code>!</code>" not in differ


def test_a_token_without_a_measure_does_not_hide_the_deepest_falls(start_collector, scripted):
    """Of twenty tokens each second one is NaN; the eight deepest falls are named, and all of their characters shown."""
    live = start_collector(engine=scripted)
    falls = [math.nan if place % 2 else -(place + 1) / 32 for place in range(20)]
    pieces = [f"w{place} \t\n\u3000\0\u202ea\u200da実\u200d験👩\u200d🚀ی\u200cخ" for place in range(20)]
    sampled = response(
        length=20,
        displacement=-1.0,
        actions=array([[0, 20]], "int32"),
        logprobs=array([-0.5] * 20, "float16"),
        token_ids=array(list(range(20)), "int32"),
        displacements=array(falls, "float16"),
        pieces=pieces,
    )
    live.send(run="r", records=[{"step": 1, "scalars": {"page": 1.0}, "responses": [sampled]}])
    (alert,) = eventually(lambda: live.get("/alerts")["items"])
    html = _read(live, alert)[1]
    fell = html.split("Tokens of its actions that fell most: ")[1].split("</p>")[0]
    shown = re.escape("␣⇥⏎\\u3000\\x00\\u202ea\\u200da実\\u200d験👩\u200d🚀ی\u200cخ")
    assert re.findall(rf"<code>(w\d+){shown}</code>", fell) == [f"w{place}" for place in range(18, 3, -2)]


def test_the_phase_after_a_rewind_ends_at_the_step_that_the_run_has_reached(start_collector, scripted):
    """The page does not call healthy the steps of the attempt before, which are drawn as well."""
    live = start_collector(engine=scripted)
    live.send(run="back", records=[{"step": step, "scalars": {"page": float(step == 9)}} for step in range(10)])
    (alert,) = eventually(lambda: live.get("/alerts")["items"])
    again = [{"step": step, "scalars": {"page": 0.0, "reward/mean": 0.5}} for step in (3, 4)]
    live.send(run="back", attempt=2, records=again)
    (phase,) = eventually(
        lambda: [
            each
            for each in live.get(f"/runs/{alert['run_id']}/phases")["items"]
            if live.get(f"/runs/{alert['run_id']}")["last_step"] == 4
        ]
    )
    html = _read(live, alert)[0].data.decode()
    assert f"<title>{phase['phase']}, steps {phase['from_step']} to 4</title>" in html
    assert "Opened at step 9 (" in html
    assert "resolved as the run went back to step 3." in html
    assert "The run went back to step 3: from there on, the curves are those of the steps that it made again" in html


def test_texts_can_be_left_out(incident):
    """Without texts neither the page nor its data holds the text of a token or a response."""
    live, alert = incident
    assert "&lt;think&gt;" in _read(live, alert)[1]
    _, html = _read(live, alert, "?texts=false")
    data = _data(html)
    assert "think" not in html
    assert {(each["text"], each["pieces"]) for each in data["attribution"]["responses"]} == {(None, None)}
    assert {token["text"] for token in data["attribution"]["tokens"]} == {None}


def test_the_command_writes_the_report(incident, tmp_path, capsys):
    """`rlvitals incident` writes the file, and an unknown alert is one line on standard error."""
    live, alert = incident
    file = tmp_path / "report.html"
    assert main(["incident", alert["id"], "-o", str(file), "--url", live.url]) == 0
    assert _data(file.read_text())["alert"] == alert
    assert main(["incident", "../runs", "-o", str(tmp_path / "none.html"), "--url", live.url]) == 1
    assert "404" in capsys.readouterr().err
    assert not (tmp_path / "none.html").exists()


def test_the_command_writes_into_a_pipe_and_through_a_symbolic_link(incident, tmp_path, capsys):
    """A rename in their place would replace them: as root, `-o /dev/null` would remove the device."""
    live, alert = incident
    pipe, link, file = tmp_path / "pipe", tmp_path / "link.html", tmp_path / "file.html"
    os.mkfifo(pipe)
    file.write_text("earlier")
    link.symlink_to(file)
    with ThreadPoolExecutor() as threads:
        read = threads.submit(pipe.read_bytes)
        assert main(["incident", alert["id"], "-o", str(pipe), "--url", live.url]) == 0
        assert read.result().startswith(b"<!doctype html>")
    assert pipe.is_fifo()
    assert not capsys.readouterr().out, "a message would stand behind the report where the pipe is standard output"
    assert main(["incident", alert["id"], "-o", str(link), "--url", live.url]) == 0
    assert link.is_symlink()
    assert file.read_text().startswith("<!doctype html>")


def test_an_alert_that_nobody_has_seen_has_no_report(collector):
    """The answer is the API's 404."""
    answer = collector.pool.request("GET", f"{collector.url}/api/v1/alerts/nobody/incident")
    assert (answer.status, answer.json()["error"]) == (404, "UnknownAlert")
