"""Links of notifications: their actions, that each acts once, and that nothing else acts."""

import io
import itertools
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import sqlalchemy

from monitor_server.app import create_app
from monitor_server.commands.main import main
from monitor_server.durations import DAY_SECONDS
from monitor_server.errors import StartupError, Unavailable
from monitor_server.instrumentation.collector_log import line_handler
from monitor_server.settings import Settings
from tests.databases import execute, sqlite_only
from tests.live import eventually
from tests.monitor_server.access.conftest import Guarded
from tests.monitor_server.action_links.conftest import FORM, REST, Reader, channel, confirmation_of
from tests.monitor_server.notifications.receivers import written

# The texts that a page shows of the run of `reader` and of its alert.
LIVE = ("project p", "scripted", "page is 1", "since step", "firing", "acknowledged by", "silenced until")
GUESS = "A" * 43  # of the form of a token


def test_a_link_acknowledges_its_alert_and_names_the_channel(reader):
    """The page states run and action; the button performs it, and alert, history and audit log name the person."""
    token = reader.links()["acknowledge"]
    page = reader.open(token)
    text = page.data.decode()
    assert page.status == 200
    assert "Acknowledge the alert" in text
    assert "r of project p" in text
    assert reader.alert()["acknowledged_by"] is None
    done = reader.press(token)
    assert (done.status, "The alert is acknowledged." in done.data.decode()) == (200, True)
    alert = reader.alert()
    assert (alert["stage"], alert["acknowledged_by"]) == ("acknowledged", "link sent to hook")
    (entry,) = [item for item in reader.live.get("/audit")["items"] if item["action"] == "alert.acknowledge"]
    assert (entry["by"], entry["target"], entry["project"]) == ("link sent to hook", alert["id"], "p")
    history = reader.live.get(f"/alerts/{alert['id']}/history")["items"]
    assert ("acknowledged", "link sent to hook") in [(item["change"], item["by"]) for item in history]


def test_a_link_silences_its_alert_for_an_hour(reader):
    """Only this alert is silenced, and the silence ends without a further request."""
    assert reader.press(reader.links()["silence_hour"]).status == 200
    alert = reader.alert()
    assert alert["stage"] == "silenced"
    (silence,) = reader.live.get("/silences")["items"]
    assert (silence["alert_id"], silence["created_by"]) == (alert["id"], "link sent to hook")
    assert silence["ends_at"] - silence["starts_at"] == pytest.approx(3_600.0)


@sqlite_only
def test_opening_a_link_never_acts_however_often_a_scanner_does_it(reader):
    """A form without the confirmation of the page, or with that of another link, does not act either."""
    links = reader.links()
    for agent in ("Slackbot-LinkExpanding 1.0", "Mozilla/5.0 (mail scanner)"):
        assert reader.open(links["acknowledge"], **{"User-Agent": agent}).status == 200
    other = confirmation_of(reader.open(links["silence_hour"]))
    for given in ("", "1.x", other, "9" * 30):
        answer = reader.press(links["acknowledge"], given)
        assert (answer.status, "Nothing was done" in answer.data.decode()) == (403, True)
    assert reader.alert()["stage"] == "firing"


@sqlite_only
def test_the_page_says_that_the_acknowledgement_of_a_lost_trainer_gives_its_run_up(reading, clock):
    """On the page of any other alert the run continues unchanged."""
    reader = reading(clock=clock, stall_minimum_seconds=100, lost_factor=2)
    reader.live.send(run="r", project="p", records=[{"step": 7, "scalars": {"a": 1.0}}])
    clock.now += 1_000
    assert b"it counts as stopped until its trainer sends again" in reader.open(reader.links()["acknowledge"]).data


def test_no_link_stops_a_run_that_the_collector_cannot_process(reading, start_collector, database_url):
    """The collector failed and not the training, so the message offers only what concerns the alert."""
    start_collector(role="ingest").run(run="r", project="p", records=[{"step": 7, "scalars": {"a": 1.0}}])
    damage = "UPDATE records SET body = {}"
    execute(database_url, {"sqlite": damage.format("x'c1'"), "postgresql": damage.format("'\\xc1'::bytea")})
    reader = reading()
    assert set(reader.links()) == {"acknowledge", "silence_hour"}
    assert reader.alert()["kind"] == "monitor_degraded"


def test_a_used_link_says_what_it_did_and_shows_nothing_of_the_run(reader):
    """This holds for GET and for a replay of the form; an old message reveals nothing of a run that goes on."""
    token = reader.links()["acknowledge"]
    confirmation = confirmation_of(reader.open(token))
    assert reader.press(token, confirmation).status == 200
    for again in (reader.press(token, confirmation), reader.open(token)):
        text = again.data.decode()
        assert again.status == 410
        assert "It was used at" in text
        assert "acknowledged the alert" in text
        assert "channel hook" in text
        assert "<form" not in text
        assert not [shown for shown in LIVE if shown in text]
    assert len([item for item in reader.live.get("/audit")["items"] if item["action"] == "alert.acknowledge"]) == 1


def test_of_two_clicks_at_once_on_two_collectors_one_acts(reader, start_collector, scripted):
    """The database decides, on each kind of it."""
    other = Reader(start_collector(engine=scripted, role="web", dashboard=""), reader.receiver)
    token = reader.links()["silence_hour"]
    confirmation = confirmation_of(reader.open(token))
    clicks = [each for each in (reader, other) for _ in range(4)]
    with ThreadPoolExecutor(len(clicks)) as pool:
        answers = list(pool.map(lambda each: each.press(token, confirmation).status, clicks))
    assert sorted(answers) == [200] + [410] * (len(clicks) - 1)
    assert len(reader.live.get("/silences")["items"]) == 1


def test_a_link_that_is_over_says_until_when_it_held(reading, clock, database_url):
    """Its end is part of the signed text, so a changed row makes the link invalid."""
    reader = reading(clock=clock)
    reader.live.send(run="r", project="p", records=[{"step": 7, "scalars": {"page": 1.0}}])
    token = reader.links()["acknowledge"]
    clock.now += 3_601.0
    answer = reader.open(token)
    assert (answer.status, "It was valid until" in answer.data.decode()) == (410, True)
    assert not [shown for shown in LIVE if shown in answer.data.decode()]
    moved = "UPDATE action_links SET expires_at = expires_at + 86400"
    execute(database_url, {"sqlite": moved, "postgresql": moved})
    assert reader.open(token).status == 404


@sqlite_only
def test_a_row_that_is_changed_does_nothing_else(reader, database_url):
    """Without the secret, a writer to the database cannot turn an acknowledgement into a silence."""
    token = reader.links()["acknowledge"]
    changed = "UPDATE action_links SET action = 'silence_hour' WHERE action = 'acknowledge'"
    execute(database_url, {"sqlite": changed, "postgresql": changed})
    assert reader.open(token).status == 404
    assert reader.press(token, "1.x").status == 404


@sqlite_only
def test_a_forged_link_is_not_valid_and_tells_nothing(reader):
    """The page is the same for every defect of the link."""
    token = reader.links()["acknowledge"]
    forged = [token[:-1] + ("A" if token[-1] != "A" else "B"), token[:-1], "x", "é", token.swapcase()]
    pages = {(page.status, page.data) for page in map(reader.open, forged)}
    assert [status for status, _ in pages] == [404]
    assert "not valid" in pages.pop()[1].decode()


def test_a_link_of_a_resolved_alert_does_nothing(reader):
    """Nothing is left to do."""
    token = reader.links()["acknowledge"]
    confirmation = confirmation_of(reader.open(token))
    reader.live.send(run="r", project="p", records=[{"step": 8, "scalars": {"page": 0.0}}])
    eventually(lambda: reader.alert()["state"] == "resolved")
    for answer in (reader.open(token), reader.press(token, confirmation)):
        assert (answer.status, "The alert is resolved" in answer.data.decode()) == (410, True)
        assert not [shown for shown in LIVE if shown in answer.data.decode()]
    assert reader.alert()["acknowledged_by"] is None


def test_only_hashes_are_stored_and_no_log_holds_a_link(reader, database_url, caplog):
    """In no table and in no line, also of the debug level, and also not of links that are wrong."""
    caplog.set_level(logging.DEBUG)
    tokens = list(reader.links().values())
    reader.press(tokens[0])
    reader.open(tokens[0] + "x")
    reader.press(tokens[1], "wrong")
    engine = sqlalchemy.create_engine(database_url)
    metadata = sqlalchemy.MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        stored = [
            str(row) for table in metadata.tables.values() for row in connection.execute(sqlalchemy.select(table))
        ]
    engine.dispose()
    assert any("link sent to hook" in row for row in stored)
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("urllib3")]
    assert not [text for text in [*stored, *ours] if any(token in text for token in tokens)]


@sqlite_only
def test_the_page_runs_no_script_and_sends_no_referrer(reader):
    """Every answer of a link, also a refusal, has the headers."""
    token = reader.links()["acknowledge"]
    for answer in (reader.open(token), reader.open("x"), reader.press(token, "x"), reader.press(token)):
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none';")
        assert "script-src" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "<script" not in answer.data.decode()


@sqlite_only
def test_a_form_of_another_site_is_refused(reader):
    """Its origin is another site, or null in a cross-site request."""
    token = reader.links()["acknowledge"]
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site", "Origin": "null"}):
        sent = {"Content-Type": "application/x-www-form-urlencoded"} | headers
        answer = reader.live.pool.request("POST", f"{reader.live.url}/act/{token}", headers=sent, body="a=b")
        assert (answer.status, answer.json()["error"]) == (403, "ForeignOrigin")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = reader.live.pool.request("POST", f"{reader.live.url}/api/v1/silences", headers=form, body="a=b")
    assert answer.status == 415


@sqlite_only
@pytest.mark.usefixtures("still_limits")
def test_a_stranger_who_guesses_is_refused_and_costs_nobody_a_place(reader):
    """Behind a proxy all have one address: a genuine link, also one that is over, still opens and acts."""
    tokens = reader.links()
    statuses = {reader.open(f"guess-{number}").status for number in range(60)}
    assert statuses == {404, 429}
    answer = reader.open(GUESS)
    assert answer.status == 429
    assert answer.headers["Retry-After"] == "60"
    assert "Too many links" in answer.data.decode()
    confirmation = confirmation_of(reader.open(tokens["acknowledge"]))
    assert reader.press(GUESS, "1.x").status == 429
    assert reader.press(tokens["acknowledge"], confirmation).status == 200
    for _ in range(100):
        assert reader.open(tokens["acknowledge"]).status == 410


@sqlite_only
def test_only_a_confirmed_link_reaches_the_writer(reader, monkeypatch):
    """Strangers, scanners and old links are answered by reading; a guess without a token's form is not looked up."""
    tokens = reader.links()
    collector = reader.live.app.state.collector
    run_id = reader.alert()["run_id"]  # a link is written under the name of its run
    submitted, submit = [], collector.writer.submit
    monkeypatch.setattr(collector.writer, "submit", lambda key, *rest, **named: (
        submitted.append(key), submit(key, *rest, **named))[1],
    )  # fmt: skip
    assert reader.press(GUESS, "1.x").status == 404
    assert reader.press("x", "1.x").status == 404
    assert reader.press(tokens["acknowledge"], "wrong").status == 403
    assert run_id not in submitted
    confirmation = confirmation_of(reader.open(tokens["acknowledge"]))
    assert reader.press(tokens["acknowledge"], confirmation).status == 200
    assert reader.press(tokens["acknowledge"], confirmation).status == 410
    assert submitted.count(run_id) == 1


@sqlite_only
def test_the_form_of_a_link_is_small(reader):
    """A body above four kibibytes is refused before it is read, and one of unknown length while it is read."""
    token = reader.links()["acknowledge"]
    url = f"{reader.live.url}/act/{token}"
    for body in (b"a=" + b"b" * 4_095, iter([b"a=" + b"b" * 3_000, b"b" * 3_000])):
        answer = reader.live.pool.request("POST", url, headers=FORM, body=body)
        assert (answer.status, answer.json()["error"]) == (413, "BodyTooLarge")


@sqlite_only
def test_a_failure_after_the_press_does_not_claim_that_nothing_was_changed(reader, monkeypatch):
    """The commit may have succeeded though nobody could confirm it, as here; the page leads to the alert."""
    token = reader.links()["acknowledge"]
    confirmation = confirmation_of(reader.open(token))
    collector, run_id = reader.live.app.state.collector, reader.alert()["run_id"]
    submit = collector.writer.submit

    def submit_and_lose_the_answer(key, *rest, **named):
        done = submit(key, *rest, **named)
        if key != run_id:
            return done
        done.result(60)
        lost = Future()
        lost.set_exception(Unavailable("the connection to the database was lost"))
        return lost

    monkeypatch.setattr(collector.writer, "submit", submit_and_lose_the_answer)
    answer = reader.press(token, confirmation)
    text = answer.data.decode()
    assert answer.status == 503
    assert "not known whether" in text
    assert "othing has been changed" not in text
    assert f"/alerts/{reader.alert()['id']}" in text
    assert reader.alert()["acknowledged_by"] == "link sent to hook"


@sqlite_only
def test_a_failure_before_the_press_is_said_to_have_changed_nothing(reader, monkeypatch):
    """The database cannot be read, or the writer takes no more: nothing was begun."""
    token = reader.links()["acknowledge"]
    confirmation = confirmation_of(reader.open(token))
    collector = reader.live.app.state.collector

    def refuse(*_rest, **_named):
        raise Unavailable("too many wait")

    with monkeypatch.context() as patch:
        patch.setattr(collector.writer, "submit", refuse)
        answer = reader.press(token, confirmation)
        assert (answer.status, "Nothing has been changed" in answer.data.decode()) == (503, True)
    with monkeypatch.context() as patch:
        patch.setattr(collector.store, "read", refuse)
        for answer in (reader.open(token), reader.press(token, confirmation)):
            assert (answer.status, "Nothing has been changed" in answer.data.decode()) == (503, True)
    assert reader.press(token, confirmation).status == 200


@sqlite_only
def test_a_link_of_an_alert_that_was_acknowledged_too_often_says_so(reader, monkeypatch):
    """Nothing is written, and the link can be used again."""
    monkeypatch.setattr("monitor_server.alerts.acknowledgement.MAX_ACKNOWLEDGEMENTS", 0)
    answer = reader.press(reader.links()["acknowledge"])
    assert (answer.status, "can be acknowledged at most 0 times" in answer.data.decode()) == (422, True)
    assert reader.alert()["acknowledged_by"] is None


@sqlite_only
def test_a_press_whose_page_cannot_be_read_afterwards_is_still_done(reader, monkeypatch):
    """The page states the committed action, without the state of the alert, which is unknown."""
    token = reader.links()["silence_hour"]
    confirmation = confirmation_of(reader.open(token))
    collector, run_id = reader.live.app.state.collector, reader.alert()["run_id"]
    submit, read = collector.writer.submit, collector.store.read

    def fail():
        raise Unavailable("the database has gone")

    def submit_and_lose_the_database(key, *rest, **named):
        done = submit(key, *rest, **named)
        if key == run_id:
            done.result(60)
            monkeypatch.setattr(collector.store, "read", fail)
        return done

    monkeypatch.setattr(collector.writer, "submit", submit_and_lose_the_database)
    answer = reader.press(token, confirmation)
    monkeypatch.setattr(collector.store, "read", read)
    assert (answer.status, "The alert is silenced for an hour." in answer.data.decode()) == (200, True)


@sqlite_only
def test_no_log_line_of_any_format_holds_a_token_whatever_fails(reader, monkeypatch):
    """Neither a server error, nor another method, nor a slash behind it logs a token; nothing redirects to it."""
    tokens = list(reader.links().values())
    texts, structured = io.StringIO(), io.StringIO()
    handlers = []
    for form, stream in (("text", texts), ("json", structured)):
        handler = line_handler(form)
        handler.setStream(stream)
        handler.filters.clear()  # every line, however many
        handlers.append(handler)
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", logging.DEBUG)
    collector = reader.live.app.state.collector

    def fail(*_rest, **_named):
        raise RuntimeError("a defect")

    for handler in handlers:
        root.addHandler(handler)
    # The client of this test logs addresses as well.
    monkeypatch.setattr(logging.getLogger("urllib3"), "propagate", False)
    try:
        for token in tokens:
            for path in (token, f"{token}/", f"{token}/x", f"/{token}", f"{token}?a=b"):
                for method in ("GET", "HEAD", "PUT", "POST", "OPTIONS"):
                    answer = reader.live.pool.request(
                        method, f"{reader.live.url}/act/{path}", headers={"Accept": "text/html"}, redirect=False
                    )
                    assert "Location" not in answer.headers
            with monkeypatch.context() as patch:
                patch.setattr(collector.store, "read", fail)
                for method in ("GET", "POST"):  # the server closes the connection after such a failure
                    answer = reader.live.pool.request(
                        method, f"{reader.live.url}/act/{token}", headers={"Connection": "close"}
                    )
                    assert answer.status == 500
    finally:
        for handler in handlers:
            root.removeHandler(handler)
    for stream in (texts, structured):
        assert "RuntimeError" in stream.getvalue()
        assert not [token for token in tokens if token in stream.getvalue()]


@sqlite_only
def test_a_slash_behind_a_link_leads_nobody_elsewhere(reader):
    """Chat programs add one; the page is the link's, also where keys are in use and a browser would sign in."""
    token = reader.links()["acknowledge"]
    Guarded(reader.live).key("admin")
    page = reader.open(f"{token}/", Accept="text/html")
    assert (page.status, "Location" in page.headers) == (200, False)
    assert reader.press(f"{token}/", confirmation_of(page)).status == 200


@sqlite_only
def test_a_collector_that_starts_between_a_click_and_its_pick_up_hands_the_request_out(
    reader, start_collector, scripted
):
    """The link is used, the request is in the database, and the next process delivers it once."""
    assert reader.press(reader.links()["stop"]).status == 200
    reader.live.server.should_exit = True
    again = start_collector(engine=scripted)
    steps = itertools.count(8)

    def ask():
        return again.send(run="r", project="p", records=[{"step": next(steps), "scalars": {"page": 1.0}}]).get(
            "requests"
        )

    (request,) = eventually(ask)
    assert (request["action"], request["by"]) == ("stop", "link sent to hook")


@sqlite_only
def test_only_critical_alerts_of_channels_that_ask_for_it_have_links(reading, receiver, tmp_path):
    """A warning has none, and neither has a message to a channel without `actions`."""
    plain = channel(receiver.url, name="plain").replace("actions = true\n", "").replace("/in", "/plain")
    routes = REST.replace('["hook"]', '["hook", "plain"]')
    found = reading(notifications=written(tmp_path, channel(receiver.url), plain, routes))
    found.live.send(run="w", records=[{"step": 1, "scalars": {"warn": 1.0}}])
    eventually(lambda: len(receiver.bodies) == 2)
    found.live.send(run="r", records=[{"step": 1, "scalars": {"page": 1.0}}])
    eventually(lambda: len(receiver.bodies) == 4)
    linked = {(body["channel"], body["severity"]): "links" in body["alerts"][0] for body in receiver.bodies}
    expected = {("hook", "warning"): False, ("plain", "warning"): False, ("plain", "critical"): False}
    assert linked == expected | {("hook", "critical"): True}


def test_ending_all_links_begins_with_a_new_secret(reader, capsys):
    """`rlvitals notifications end-links`, when a message has reached the wrong eyes."""
    token = reader.links()["acknowledge"]
    assert main(["notifications", "end-links", "--url", reader.live.url]) == 0
    assert "4 links no longer hold; messages from now on are signed with a new secret" in capsys.readouterr().out
    assert reader.open(token).status == 404
    reader.live.send(run="other", project="p", records=[{"step": 7, "scalars": {"page": 1.0}}])
    assert reader.press(reader.links(message=1)["acknowledge"]).status == 200
    assert "links.end" in [item["action"] for item in reader.live.get("/audit")["items"]]


@sqlite_only
def test_the_secret_may_be_a_file_that_is_exchanged(reading, tmp_path, capsys):
    """Links of the old one no longer hold, and nothing of it is in the database. Only a person makes a new one."""
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef" * 4)
    found = reading(link_secret_file=path)
    found.live.send(run="r", records=[{"step": 7, "scalars": {"page": 1.0}}])
    token = found.links()["acknowledge"]
    assert found.open(token).status == 200
    path.write_text("another 6789abcdef" * 4)
    assert found.open(token).status == 404
    with found.live.app.state.collector.store.read() as repositories:
        assert repositories.action_links.current_secret() is None
    assert main(["notifications", "end-links", "--url", found.live.url]) == 0
    assert "replace the file of RLVITALS_LINK_SECRET_FILE" in capsys.readouterr().out


def test_links_need_an_address_and_a_secret_that_is_long_enough(receiver, tmp_path):
    """The start ends with a message that names the setting."""
    settings = Settings(
        notifications=written(tmp_path, channel(receiver.url), REST), database_url=f"sqlite:///{tmp_path}/r.db"
    )
    with pytest.raises(StartupError, match=r"channels\.hook\.actions needs RLVITALS_PUBLIC_URL"):
        create_app(settings)
    path = tmp_path / "secret"
    path.write_text("short")
    for file, problem in ((path, "at least 32 bytes, got 5"), (tmp_path / "missing", "cannot be read")):
        with pytest.raises(StartupError, match=problem):
            create_app(settings.model_copy(update={"public_url": "https://v.example", "link_secret_file": file}))


def test_a_secret_file_is_read_at_the_start_whatever_channels_there_are(tmp_path):
    """Otherwise the first link would find it missing; a process that only takes batches does not need it."""
    settings = Settings(database_url=f"sqlite:///{tmp_path}/r.db", link_secret_file=tmp_path / "missing")
    for role in ("all", "web", "projector"):
        with pytest.raises(StartupError, match=r"RLVITALS_LINK_SECRET_FILE: .*missing cannot be read: No such file"):
            create_app(settings.model_copy(update={"role": role}))
    assert not (tmp_path / "r.db").exists()
    create_app(settings.model_copy(update={"role": "ingest"})).state.collector.store.close()


@sqlite_only
def test_a_link_whose_secret_file_is_gone_costs_no_message(reading, receiver, tmp_path):
    """The message goes without links."""
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef" * 4)
    found = reading(link_secret_file=path)
    path.unlink()
    found.live.send(run="r", records=[{"step": 7, "scalars": {"page": 1.0}}])
    (body,) = eventually(lambda: receiver.bodies)
    assert "links" not in body["alerts"][0]


@sqlite_only
def test_a_link_works_without_a_key_where_keys_are_in_use(reader):
    """The link is the right to one action; every other route stays closed."""
    tokens = reader.links()
    pool, url = reader.live.pool, reader.live.url
    Guarded(reader.live).key("admin")
    assert pool.request("GET", f"{url}/api/v1/alerts").status == 401
    assert reader.press(tokens["acknowledge"]).status == 200
    assert pool.request("POST", f"{url}/api/v1/notifications/links/end").status == 401


def test_a_link_that_was_made_by_a_clock_days_ahead_ends_once_the_clock_is_right(
    reading, clock, start_collector, scripted
):
    """Its end is signed and cannot be moved; it would be valid for days."""
    clock.now = time.time() + 3 * DAY_SECONDS
    reader = reading(clock=clock)
    reader.live.send(run="r", project="p", records=[{"step": 7, "scalars": {"page": 1.0}}])
    token = reader.links()["stop"]
    assert reader.open(token).status == 200
    reader.live.stop()
    again = Reader(start_collector(engine=scripted), reader.receiver)
    assert again.open(token).status == 404
