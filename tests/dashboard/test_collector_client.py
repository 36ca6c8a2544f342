"""The API client against a real collector, and against answers that no collector should give."""

import asyncio
import contextlib
import json
import math
import socket
import struct
import threading

import httpx2
import pytest
import uvicorn
import uvloop
from fastapi import FastAPI, Response

from dashboard.collector_client import http_requests
from dashboard.collector_client.answers import printable_tree, read_as
from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, NotFoundError, UnreachableError, describe_failure
from dashboard.collector_client.request_outcomes import watch_requests
from dashboard.collector_client.types.alerts import AlertItem
from dashboard.collector_client.types.runs import RunRow, SeriesItem
from dashboard.transport import ResetReportingTransport
from tests.live import eventually


def ask(url, call):
    async def asking():
        async with ApiClient(url) as api:
            return await call(api)

    return asyncio.run(asking())


def test_values_come_back_to_the_last_bit(collector, run_name):
    """Non-finite ones as floats, not as strings."""
    values = [0.1, 1e-300, "NaN", "Infinity", "-Infinity"]
    run_id = collector.run(
        run=run_name, records=[{"step": step, "scalars": {"reward/mean": value}} for step, value in enumerate(values)]
    )
    series = ask(collector.url, lambda api: api.runs.series(run_id, ["reward/mean", "entropy/mean"]))
    assert series.keys() == {"reward/mean"}
    assert series["reward/mean"]["steps"] == [0, 1, 2, 3, 4]
    assert series["reward/mean"]["values"][:2] == [0.1, 1e-300]
    assert math.isnan(series["reward/mean"]["values"][2])
    assert series["reward/mean"]["values"][3:] == [math.inf, -math.inf]


def test_a_connection_that_is_reset_at_once_is_a_collector_that_does_not_answer():
    """On the event loop of the server, which may learn of it before the first request is sent."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listening:
        resetting = threading.Thread(target=_reset_all, args=(listening,))
        resetting.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        async def ask_hundred():
            async with contextlib.AsyncExitStack() as clients:
                asked = [await clients.enter_async_context(ApiClient(url)) for _ in range(100)]
                return await asyncio.gather(*(api.runs.get("r") for api in asked), return_exceptions=True)

        errors = [error for _ in range(5) for error in uvloop.run(ask_hundred())]
        listening.shutdown(socket.SHUT_RDWR)
        resetting.join()
    assert {type(error) for error in errors} == {UnreachableError}


@pytest.mark.parametrize("nothing", [None, 0], ids=["of nothing", "of something"])
def test_another_missing_attribute_is_a_defect_and_no_lost_connection(nothing, collector):
    """It would otherwise be shown as a collector that does not answer."""

    async def content():
        yield b"{"
        nothing.missing  # noqa: B018 - it raises

    async def send():
        async with ResetReportingTransport() as transport:
            await transport.handle_async_request(httpx2.Request("POST", f"{collector.url}/api/v1/x", content=content()))

    with pytest.raises(AttributeError, match="missing"):
        asyncio.run(send())


def _reset_all(listening):
    with contextlib.suppress(OSError):  # it is closed
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()


def test_every_page_of_a_list_is_followed(start_collector):
    """205 rules are more than the 200 of one answer."""
    live = start_collector()

    async def make(api):
        for index in range(205):
            rule = {
                "name": f"rule-{index}",
                "condition": "absence",
                "signal": "a",
                "for_steps": 5,
                "project": f"p{index % 3}",
            }
            await api.rules.save(None, rule)
        return await api.rules.all()

    assert len({rule["id"] for rule in ask(live.url, make)}) == 205


def test_the_newest_runs_that_match_a_text_are_read(start_collector):
    """Each word is looked for; without a text the newest runs are all that match."""
    live = start_collector()
    for name in ("lr1-seed1", "lr2-seed1", "lr1-seed2"):
        live.run(run=name, project="sweep", records=[{"step": 0, "scalars": {"reward/mean": "NaN"}}])
    for text, found in {"lr1 sweep": ["lr1-seed2", "lr1-seed1"], "": ["lr1-seed2", "lr2-seed1"], "nobody": []}.items():
        runs = ask(live.url, lambda api, text=text: api.runs.matching(text, limit=2))
        assert [run["name"] for run in runs] == found


def test_runs_are_read_in_the_order_of_their_ids_and_those_that_are_gone_are_left_out(collector, run_name):
    """An id that nothing can have is treated as that of a deleted run."""
    ids = [collector.run(run=f"{run_name}-{n}", records=[{"step": 0, "scalars": {"a": n}}]) for n in range(2)]
    runs = ask(collector.url, lambda api: api.runs.some([ids[1], "0000", "../keys", ids[0]]))
    assert [run["id"] for run in runs] == [ids[1], ids[0]]
    with pytest.raises(UnreachableError):
        ask("http://127.0.0.1:9", lambda api: api.runs.some(ids))


def test_a_run_that_is_called_nan_keeps_its_name(collector):
    """Only numbers are restored, never names."""
    run_id = collector.run(run="NaN", records=[{"step": 0, "scalars": {"reward/mean": "NaN"}}])
    run = ask(collector.url, lambda api: api.runs.get(run_id))
    assert run["name"] == "NaN"
    assert math.isnan(run["sparkline"]["values"][0])


HOSTILE = "\x1b[2J\nforged\u202e\u2028\x9b31m\ud800"
ESCAPED = r"\x1b[2J\nforged\u202e\u2028\x9b31m\ud800"


def test_texts_of_answers_are_escaped(serve):
    """Direction marks and control characters of a person's note cannot change the text beside it."""
    answer = json.dumps({"by": HOSTILE, "evidence": {HOSTILE: [1.5, HOSTILE, "réward 奖励"]}, "text": "a\nb\tc\u202e"})
    app = FastAPI()
    app.add_api_route("/api/v1/alerts/a", lambda: Response(answer, media_type="application/json"))
    alert = ask(serve(app), lambda api: api.alerts.get("a"))
    assert alert == {
        "by": ESCAPED,
        "evidence": {ESCAPED: [1.5, ESCAPED, "réward 奖励"]},
        "text": r"a\nb\tc\u202e".replace(r"\n", "\n").replace(r"\t", "\t"),
    }


def test_lines_that_people_write_stay_lines(collector, run_name):
    """Notes that were shown with escapes in the place of line ends would be saved with them."""
    run_id = collector.run(run=run_name, records=[{"step": 0, "scalars": {"a": 0.5}}])
    ask(collector.url, lambda api: api.runs.label(run_id, notes="Dies at\n\tstep 300."))
    assert ask(collector.url, lambda api: api.runs.get(run_id))["notes"] == "Dies at\n\tstep 300."


def test_letters_and_emoji_that_people_write_stay_joined(collector, run_name):
    """Persian words and many emoji have joiners; a title that was shown with their escapes would be saved with them."""
    joined = "می\u200cخواهم GPU\u200cها \U0001f469\u200d\U0001f4bb"
    run_id = collector.run(run=run_name, records=[{"step": 0, "scalars": {"a": 0.5}}])
    ask(
        collector.url,
        lambda api: api.runs.label(run_id, title=joined, tags=[joined], notes=f"{joined} so\u00adft\u200b"),
    )
    run = ask(collector.url, lambda api: api.runs.get(run_id))
    assert (run["title"], run["tags"], run["notes"]) == (joined, [joined], f"{joined} so\u00adft\u200b")


def test_a_joiner_that_joins_nothing_is_shown():
    """It would make a tag look like another one, and the token of a split emoji look empty."""
    shown = printable_tree({"tags": ["owner:an\u200dn", "実\u200d験"], "pieces": ["\u200d"]})
    assert shown == {"tags": [r"owner:an\u200dn", r"実\u200d験"], "pieces": [r"\u200d"]}


@pytest.mark.parametrize("name", ["..", ".", "a.b/c d%2E"])
def test_a_project_of_any_name_is_deleted(collector, name):
    """A path with two dots leads to another address."""
    kept, gone = collector.run(run="kept", project="kept"), collector.run(run="gone", project=name, end="finished")
    eventually(lambda: collector.get(f"/runs/{gone}")["status"] == "finished")
    ask(collector.url, lambda api: api.runs.delete_project(name))
    left = [run["id"] for run in collector.get("/runs")["items"]]
    assert gone not in left
    assert kept in left


def test_an_unknown_run_is_not_found(collector):
    """The message is the collector's own."""
    with pytest.raises(NotFoundError, match="no run has the id"):
        ask(collector.url, lambda api: api.runs.get("0000"))


def test_a_change_that_is_not_confirmed_is_not_called_undone(serve, monkeypatch):
    """Neither where the collector says so nor where it hangs. A reader learns that it does not answer, as before."""
    app = FastAPI()
    unknown = b'{"error": "OutcomeUnknown", "detail": "the database has not confirmed this"}'
    app.post("/api/v1/alerts/{_}/comments")(lambda: Response(unknown, status_code=503))

    def describe(url, call, seconds=0.1):
        async def asking():
            async with ApiClient(url, timeout_seconds=seconds) as api:
                await call(api)

        with pytest.raises(UnreachableError) as failed:
            asyncio.run(asking())
        return describe_failure("Not done.", failed.value)

    outcome = "It is not known whether this was done: look before you repeat it."
    answer = "The collector answered 503: the database has not confirmed this"
    assert describe(serve(app), lambda api: api.alerts.comment("a", "found"), seconds=30) == f"{outcome} {answer}"
    monkeypatch.setattr(http_requests, "CHANGE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        late = f"The collector at {url} does not answer (ReadTimeout)"
        eventually(lambda: describe(url, lambda api: api.alerts.comment("a", "found")) == f"{outcome} {late}")
        eventually(lambda: describe(url, lambda api: api.runs.get("a")) == f"Not done. {late}")
    assert describe(url, lambda api: api.alerts.comment("a", "found")).startswith("Not done. The collector at")


def test_no_listener_is_unreachable():
    """The message names the address."""
    with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:9 does not answer"):
        ask("http://127.0.0.1:9", lambda api: api.runs.get("a"))


@pytest.mark.parametrize(
    ("answer", "message", "may_pass"),
    [
        (Response("<html>", media_type="text/html"), "something other than JSON", True),
        (Response("[]"), "with no JSON object", True),
        (Response("null"), "with no JSON object", True),
        (Response("{}"), "lacks a field", True),
        (Response('{"items": null}'), "lacks a field", True),
        (Response('{"error": "Refused", "detail": "not so"}', 400), "400: not so", False),
    ],
)
def test_an_answer_that_cannot_be_used_is_explained(answer, message, may_pass, serve):
    """What a proxy or another program answers may pass, so that an open page asks again; a refusal does not."""
    app = FastAPI()
    app.add_api_route("/api/v1/runs", lambda: answer)
    app.add_api_route("/api/v1/runs/a", lambda: answer)
    url = serve(app)
    for read in (lambda api: api.runs.part({}, sort="urgency"), lambda api: api.runs.get("a")):
        outcomes = watch_requests()
        with pytest.raises(ApiError, match=message) as failed:
            ask(url, read)
        assert isinstance(failed.value, UnreachableError) == outcomes.has_failed == may_pass


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Response("<html>", 502, media_type="text/html"), "502: Bad Gateway"),
        (Response('{"error": "Busy", "detail": "try later"}', 503), "503: try later"),
        (Response('{"error": "TooManyRequests", "detail": "wait"}', 429), "429: wait"),
        (Response("[]", 500), "500"),
    ],
)
def test_a_collector_that_cannot_answer_at_present_is_unreachable(answer, message, serve):
    """A proxy's page, an overloaded collector, too many requests of this browser: the page asks again."""
    app = FastAPI()
    app.add_api_route("/api/v1/runs/a", lambda: answer)
    with pytest.raises(UnreachableError, match=message):
        ask(serve(app), lambda api: api.runs.get("a"))


def test_numbers_are_restored_wherever_a_type_has_them():
    """In lists and nested objects; texts stay, also those that are spelled like a number."""
    series = read_as(
        list[SeriesItem], [{"signal": "NaN", "steps": [1, 2, 3], "values": [1.5, "-Infinity", "Infinity"]}]
    )
    assert series == [{"signal": "NaN", "steps": [1, 2, 3], "values": [1.5, -math.inf, math.inf]}]
    run = {"name": "Infinity", "reward": "-Infinity", "sparkline": {"signal": "NaN", "values": ["Infinity"]}}
    read = {"name": "Infinity", "reward": -math.inf, "sparkline": {"signal": "NaN", "values": [math.inf]}}
    assert read_as(RunRow, {"group": None, "run": run}) == {"group": None, "run": read}
    assert read_as(RunRow, {"run": {**run, "sparkline": None}}) == {"run": {**read, "sparkline": None}}


def test_numbers_are_restored_in_parts_that_may_be_anything():
    """In lists and nested objects of the evidence; the texts of a model stay."""
    evidence = {"a": ["Infinity", {"b": "-Infinity"}], "c": "words", "d": 1, "pieces": ["NaN"], "text": "Infinity"}
    restored = {"a": [math.inf, {"b": -math.inf}], "c": "words", "d": 1, "pieces": ["NaN"], "text": "Infinity"}
    assert read_as(AlertItem, {"run": "NaN", "evidence": evidence}) == {"run": "NaN", "evidence": restored}


def test_a_part_of_another_shape_is_left_as_it_is():
    """An older or a newer collector may answer so."""
    assert read_as(list[SeriesItem], "NaN") == "NaN"
    assert read_as(list[SeriesItem], ["NaN", {"values": 5}]) == ["NaN", {"values": 5}]


@pytest.mark.parametrize(
    "identity", ["", ".", "..", "../ingest", "a/b", "a?b", "a#b", "a b", "a%2fb", "a\r\nb", "\x00", "é"]
)
def test_no_id_leads_to_another_route(collector, identity):
    """It is not found before a request is sent."""
    for call in (
        lambda api: api.runs.get(identity),
        lambda api: api.runs.series(identity, ["a"]),
        lambda api: api.alerts.all(identity),
        lambda api: api.alerts.get(identity),
        lambda api: api.alerts.acknowledge(identity),
        lambda api: api.alerts.attribution(identity),
    ):
        with pytest.raises(NotFoundError, match="has the id"):
            ask(collector.url, call)


def test_a_password_in_the_address_is_not_shown():
    """The message names the address without it."""
    with pytest.raises(UnreachableError) as caught:
        ask("http://somebody:hunter2@127.0.0.1:9", lambda api: api.runs.get("a"))
    assert "hunter2" not in str(caught.value)
    assert "http://127.0.0.1:9" in str(caught.value)


def test_a_signal_in_several_parts_is_put_together(serve):
    """An answer may end in the middle of a signal."""
    parts = {None: ([0, 1], "0.2"), "0.2": ([2, 3], "1.0"), "1.0": ([], None)}
    app = FastAPI()

    @app.get("/api/v1/runs/a/series")
    def series(cursor: str | None = None) -> dict[str, object]:
        steps, following = parts[cursor]
        return {"items": [{"signal": "s", "steps": steps, "values": ["NaN"] * len(steps)}], "next": following}

    found = ask(serve(app), lambda api: api.runs.series("a", ["s"]))
    assert found["s"]["steps"] == [0, 1, 2, 3]
    assert len(found["s"]["values"]) == 4


def test_a_firing_alert_and_the_newest_phase_are_read_whatever_came_before_or_after(serve):
    """Of 1,200 alerts the oldest fires, and the newest of 1,200 phases is that of the run."""
    app = FastAPI()

    @app.get("/api/v1/runs/a/alerts")
    def alerts(cursor: int = 0, state: str | None = None) -> dict[str, object]:
        held = [{"id": f"{n}", "state": "firing" if n == 1199 else "resolved"} for n in range(1200)]
        found = [one for one in held if state in {None, one["state"]}]
        return {"items": found[cursor : cursor + 200], "next": cursor + 200 if len(found) > cursor + 200 else None}

    @app.get("/api/v1/runs/a/phases")
    def phases() -> dict[str, object]:
        return {"items": [{"phase": "decay", "from_step": n, "to_step": n} for n in range(1200)]}

    url = serve(app)
    read = ask(url, lambda api: api.alerts.all("a"))
    assert (len(read), read[-1]["id"]) == (1001, "1199")
    assert ask(url, lambda api: api.runs.phases("a"))[-1]["from_step"] == 1199


@pytest.fixture
def serve():
    """Serve an application in a thread until the test ends."""
    with contextlib.ExitStack() as stack:

        def start(app):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            stack.callback(thread.join)
            stack.callback(setattr, server, "should_exit", True)
            return f"http://127.0.0.1:{listening.getsockname()[1]}"

        yield start
