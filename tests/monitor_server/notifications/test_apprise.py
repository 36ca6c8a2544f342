"""Everything that Apprise reaches: by a real mail server, by HTTP, and with names that mean harm."""

import asyncio
import contextlib
import email
import email.policy
import html
import io
import json
import re
import resource
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import apprise
import numpy as np
import pytest
from aiosmtpd.smtp import SMTP
from PIL import Image

from monitor_server.errors import StartupError
from monitor_server.notifications.configuration.loading import load_notifications
from monitor_server.notifications.configuration.tables import AppriseChannel, NotificationFile
from monitor_server.notifications.delivery import channels as channels_
from monitor_server.notifications.delivery.apprise_process import choose_body, takes_incidents
from monitor_server.notifications.delivery.apprise_reason import spell_reason
from monitor_server.notifications.delivery.channels import check_channels, deliver
from monitor_server.notifications.delivery.webhook import Cancellation, DeliveryFailed
from monitor_server.notifications.messages.body import build_body
from monitor_server.notifications.messages.png_drawing import PictureCurve, draw
from monitor_server.notifications.messages.wording import harmless
from monitor_server.settings import Settings
from monitor_server.store.repositories.notifications.channel_status import FAILING_ATTEMPTS
from tests.databases import sqlite_only
from tests.live import PATIENCE_SECONDS, eventually, serving
from tests.monitor_server.conftest import ScriptedEngine
from tests.monitor_server.notifications.receivers import written

HOSTILE = "@everyone <!channel> [click](https://evil.example) `x` <b>x</b> *y*"
REFERENCES = "https&colon;&sol;&sol;evil&period;example by &commat;all &#60;b&#x3e;"
FORMATS = ("text", "markdown")
AT_ONCE = "[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n"


class Mailbox:
    """Keeps every mail that the server accepts."""

    def __init__(self):
        self.mails = []

    async def handle_DATA(self, _server, _session, envelope):  # noqa: N802 - the name that aiosmtpd calls
        """Accept a mail."""
        parsed = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.mails.append((envelope.rcpt_tos, parsed))
        return "250 kept"


@contextlib.contextmanager
def receiving_mail():
    """Run a mail server on a free port until the block ends, and yield its mailbox."""
    box, loop, sessions = Mailbox(), asyncio.new_event_loop(), []

    def open_session():
        sessions.append(SMTP(box, hostname="localhost", loop=loop))
        return sessions[-1]

    server = loop.run_until_complete(loop.create_server(open_session, "127.0.0.1", 0))
    box.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield box

    async def end():
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}  # connections whose client has not hung up yet
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in sessions:
            if session.transport is not None:
                session.transport.abort()
        await asyncio.sleep(0)

    asyncio.run_coroutine_threadsafe(end(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def mailbox():
    """A mail server."""
    with receiving_mail() as box:
        yield box


def mail_url(port, *recipients, form="text"):
    """Return the URL of mails in text or HTML."""
    to = ",".join(recipients)
    return f"mailto://127.0.0.1:{port}/?from=rlvitals@example.org&to={to}&mode=insecure&format={form}"


@pytest.fixture(scope="module")
def mails(migrated_sqlite, tmp_path_factory):
    """The mails of one alert to channels of each format, by their recipients; only one channel has pictures."""
    folder = tmp_path_factory.mktemp("mails")
    names = {(written_in, sent_as): f"{written_in}.{sent_as}" for written_in in FORMATS for sent_as in ("text", "html")}
    with receiving_mail() as box:
        channels = "".join(
            f'[channels."{written_in}-{sent_as}"]\nurl = "{mail_url(box.port, f"{name}@example.org", form=sent_as)}"\n'
            f'format = "{written_in}"\npicture = {"true" if name == "text.text" else "false"}\n'
            for (written_in, sent_as), name in names.items()
        )
        route = f"[[routes]]\nchannels = {[f'{written_in}-{sent_as}' for written_in, sent_as in names]}\n"
        settings = Settings(
            database_url=migrated_sqlite(folder),
            dashboard="",
            notifications=written(folder, channels, route, AT_ONCE),
            public_url="https://vitals.example",
            tick_seconds=0.1,
        )
        with serving(settings, engine=ScriptedEngine) as live:
            calm = [{"step": step, "scalars": {"reward/mean": 0.5, "entropy/mean": 0.1 * step}} for step in range(7)]
            last = {"step": 7, "scalars": {"reward/mean": 0.1, "entropy/mean": 0.9, "page": 1.0}}
            live.send(run=HOSTILE, project=REFERENCES, records=[*calm, last])
            eventually(lambda: len(box.mails) == len(names))
    return {recipient: mail for (recipient,), mail in box.mails}


def alert_item(name, changes, *, severity_step=3):
    return {
        "id": name, "changes": changes, "severity": "critical", "opened_step": 3, "severity_step": severity_step,
        "url": "", "kind": "spiral", "run": "r", "project": "p", "opened_at": 0.0, "summary": "x" * 3_000,
        "state": "firing", "resolved_step": None, "remedies": [],
    }  # fmt: skip


def message_about(alerts):
    changes = {change: 1 for alert in alerts for change in alert["changes"]}
    counts = {"alerts": len(alerts), "runs": 1, "changes": changes, "kinds": {"spiral": len(alerts)}, "projects": {}}
    return build_body(
        message_id="m", channel="c", created_at=0.0, severity="critical", alerts=alerts, counts=counts, public_url=""
    )


def test_a_line_end_in_a_name_begins_no_header_and_no_line():
    """Ingest refuses such names; a name that was stored by other means is still one line."""
    assert harmless("at evil.example.com/login or mailto:a") == "at evil．example．com/login or mailto：a"
    assert harmless("0.25 of 1.5e-3, v1.2; loss.") == "0.25 of 1.5e-3, v1.2; loss."
    assert harmless("a\r\nBcc: all@example.org\u202e") == "a\\r\\nBcc: all＠example．org\\u202e"


@pytest.mark.parametrize("form", FORMATS)
def test_a_mail_names_a_hostile_run_and_nothing_of_it_takes_effect(mails, form):
    """No header is added, and the text holds no mention, no link of the run's and no markup."""
    mail = mails[f"{form}.text@example.org"]
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith("[CRITICAL] scripted in ＠everyone ＜!channel＞")
    text = mail.get_body(("plain",)).get_content()
    assert "since step 7" in text
    assert "page is 1" in text.replace("\\", "")
    assert "https://vitals.example/runs/" in text
    assert not [harm for harm in ("@everyone", "<!channel>", "https://evil", "<b>", "](") if harm in text]


@pytest.mark.parametrize("form", FORMATS)
def test_a_mail_in_html_shows_no_character_that_a_name_spells_by_a_reference(mails, form):
    """Mail programs make a link of an address in the shown text."""
    page = mails[f"{form}.html@example.org"].get_body(("html",)).get_content()
    shown = html.unescape(re.sub("<[^>]*>", "", page))
    assert "evil＆period;example" in shown
    assert not [harm for harm in ("https://evil", "evil.example", "@all", "<b>") if harm in shown]


def test_a_mail_holds_a_picture_of_the_run_unless_its_channel_has_none(mails):
    """Its PNG has one panel for each of the two signals that the run has sent."""
    (picture,) = mails["text.text@example.org"].iter_attachments()
    assert (picture.get_content_type(), picture.get_filename()) == ("image/png", "run.png")
    with Image.open(io.BytesIO(picture.get_content())) as image:
        image.load()
        assert image.size == (720, 40 + 2 * 120 + 30)
    assert list(mails["markdown.text@example.org"].iter_attachments()) == []


@sqlite_only
def test_a_service_that_refuses_is_tried_again_and_says_no_secret(
    start_collector, scripted, receiver, tmp_path, caplog
):
    """Apprise posts JSON; after a refusal it does so again, and neither the log nor the API has the token."""
    receiver.answer = lambda _: 500 if len(receiver.received) < 2 else 200
    token = "t0ken-that-nobody-may-see"  # noqa: S105 - of the test
    url = receiver.url.replace("http://", f"json://user:{token}@")
    path = written(tmp_path, f'[channels.app]\nurl = "{url}/{token}"\n[[routes]]\nchannels = ["app"]\n', AT_ONCE)
    live = start_collector(engine=scripted, notifications=path)
    live.send(run="r", records=[{"step": 7, "scalars": {"page": 1.0}}])
    items = eventually(
        lambda: [i for i in live.get("/notifications/channels")["items"] if i["last_sent_at"] is not None]
    )
    assert len(receiver.received) == 2
    assert token not in str(items) + caplog.text
    assert items[0]["address"] == "json://..."


def test_the_reason_of_a_service_is_stated_without_what_is_secret(receiver):
    """A server repeats topic and password, and adds a token of its own; the reason has none of them."""
    secrets = ["t0p1c-of-the-team", "p@ss/w:rd", "tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2"]

    def refuse(handler):
        text = json.dumps({"error": f"refused for {secrets[0]} by p@ss/w:rd, use {secrets[2]} at https://a.example/x1"})
        handler.send_response(400)
        handler.end_headers()
        handler.wfile.write(text.encode())

    receiver.answer = refuse
    url = f"{receiver.url.replace('http://', 'ntfy://me:p%40ss%2Fw%3Ard@')}/{secrets[0]}"
    with pytest.raises(DeliveryFailed) as caught:
        deliver(AppriseChannel(url=url), json.dumps(message_about([])).encode(), cancellation=Cancellation())
    assert str(caught.value) == (
        "Apprise could not deliver it: Failed to send ntfy notification to topic '***': "
        "refused for *** by ***, use *** at https://*** error=400."
    )
    assert caught.value.is_refusal


def test_every_part_of_an_address_is_hidden_in_a_reason():
    """Whole words of the address are hidden, as they are written and as they are sent; the other text stays."""
    url = "mailto://anna:s3cr%20et@mail.example.org:587/a-path?to=end@example.org&mode=starttls&+X-Token=abc123"
    lines = [
        "could not send as anna with s3cr et (s3cr%20et)",
        "mail.example.org:587 refuses END@example.org abc123",
    ] * 2
    assert spell_reason(lines, url) == "could not send as *** with *** (***); ***:*** refuses *** ***"
    assert spell_reason([], url) == ""
    assert len(spell_reason(["a line\n" * 1_000], url)) < 400


def test_an_answer_of_ten_gigabytes_costs_the_collector_nothing(receiver, monkeypatch):
    """The process of Apprise ends at its limit of memory, and the message counts as failed."""
    monkeypatch.setattr(channels_, "APPRISE_SECONDS", 4 * PATIENCE_SECONDS)  # a gigabyte may take longer than a message

    def flood(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n")
        part = b"x" * (1 << 20)
        try:
            for _ in range(10_240):
                handler.wfile.write(part)
        except OSError:
            return

    receiver.answer = flood
    channel = AppriseChannel(url=receiver.url.replace("http://", "json://"))
    with pytest.raises(DeliveryFailed, match="Apprise"):
        deliver(channel, json.dumps(message_about([])).encode(), cancellation=Cancellation())


def test_a_process_that_cannot_be_started_is_a_failure_in_words():
    """The collector has no file descriptor left: the start, a test and a delivery say so without a traceback."""
    channel = AppriseChannel(url="json://127.0.0.1:9")
    file = NotificationFile.model_validate(
        {"version": 1, "channels": {"app": channel}, "routes": [{"channels": ["app"]}]}
    )
    message = build_body(
        message_id="m1", channel="app", created_at=0.0, severity="info", alerts=[], public_url="", is_test=True,
        counts={"alerts": 0, "runs": 0, "changes": {}, "kinds": {}, "projects": {}},
    )  # fmt: skip
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(DeliveryFailed, match="the process of Apprise could not be started: Too many open files"):
            deliver(channel, json.dumps(message).encode(), cancellation=Cancellation())
        with pytest.raises(StartupError, match="the process of Apprise could not be started: Too many open files"):
            check_channels(file)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_address_that_apprise_does_not_know_ends_the_start(tmp_path):
    """The error names the place and not the address."""
    path = written(tmp_path, '[channels.app]\nurl = "nonsense://secret"\n[[routes]]\nchannels = ["app"]\n')
    file = load_notifications(path, variable=lambda _: None)
    with pytest.raises(StartupError, match=r"^channels.app.url must be a URL that Apprise knows") as caught:
        check_channels(file)
    assert "secret" not in str(caught.value)


def test_a_picture_that_a_service_refuses_costs_no_message(receiver):
    """The same attempt sends it once more without it, so that nothing has failed."""
    receiver.answer = lambda _: 500 if len(receiver.received) < 2 else 200
    channel = AppriseChannel(url=receiver.url.replace("http://", "json://"))
    curve = PictureCurve(name="reward/mean", steps=np.arange(2), values=np.ones(2))
    deliver(
        channel,
        json.dumps(message_about([alert_item("a", ["opened"])])).encode(),
        picture=draw("a picture", [curve], at=1),
        cancellation=Cancellation(),
    )
    first, second = receiver.bodies
    assert [each["filename"] for each in first["attachments"]] == ["run.png"]
    assert second["attachments"] == []
    assert second["message"] == first["message"]


@pytest.mark.parametrize(
    ("address", "longest", "parts"), [("mmost://{}/abcdefghijkl", 4_000, 1), ("rocket://web/hook1@{}/", 1_000, 2)]
)
def test_a_message_about_many_alerts_fits_the_service(receiver, address, longest, parts):
    """It names as many alerts as fit, and counts the others; a message that is still too long comes in parts."""
    receiver.answer = lambda _: 200 if all(len(body["text"]) <= longest for body in receiver.bodies) else 400
    channel = AppriseChannel(url=address.format(receiver.url.removeprefix("http://")), picture=False)
    url = f"https://{'x' * 300}.example/runs/r"
    alerts = [alert_item(f"a{number}", ["opened"]) | {"url": url, "summary": "page is 1 " * 50} for number in range(20)]
    deliver(channel, json.dumps(message_about(alerts)).encode(), cancellation=Cancellation())
    assert len(receiver.received) == parts
    shown = "".join(body["text"] for body in receiver.bodies)
    (missing,) = re.findall(r"(\d+) more alerts are not named here", shown)
    assert 0 < int(missing) < 20


@sqlite_only
def test_a_recipient_who_is_gone_costs_the_others_no_repeat(start_collector, scripted, mailbox, tmp_path):
    """The server refuses one address of three: the others have the mail once, and the message is tried again."""
    asked = []

    async def refuse_who_is_gone(_server, _session, envelope, address, _options):
        asked.append(address)
        if address.startswith("gone"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    mailbox.handle_RCPT = refuse_who_is_gone
    url = mail_url(mailbox.port, "a@example.org", "gone@example.org", "b@example.org")
    channel = f'[channels.mail]\nurl = "{url}"\n[[routes]]\nchannels = ["mail"]\n'
    live = start_collector(engine=scripted, notifications=written(tmp_path, channel, AT_ONCE))
    live.send(run="r", records=[{"step": 7, "scalars": {"page": 1.0}}])
    # Each attempt starts a process of Apprise.
    eventually(lambda: asked.count("gone@example.org") > 1, seconds=2 * PATIENCE_SECONDS)
    assert sorted(recipients for recipients, _ in mailbox.mails) == [["a@example.org"], ["b@example.org"]]
    (channel,) = live.get("/notifications/channels")["items"]
    assert (channel["waiting"], channel["last_sent_at"]) == (1, None)
    assert channel["last_error"]


def test_what_was_accepted_before_the_process_ended_is_not_sent_again(receiver):
    """The service has lists of users and groups; the user has the message, and the group does not answer in time."""
    counts = {"alerts": 0, "runs": 0, "changes": {}, "kinds": {}, "projects": {}}
    message = build_body(
        message_id="m1", channel="chat", created_at=0.0, severity="info", alerts=[], counts=counts, public_url="",
        is_test=True,
    )  # fmt: skip
    under_way = [Cancellation()]

    def answer_users(handler):
        if b"group_id" in receiver.received[-1][1]:
            under_way[-1].cancel()
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b'{"status": "ok", "retcode": 0}')

    receiver.answer = answer_users
    channel = AppriseChannel(url=f"{receiver.url.replace('http://', 'onebot://token@')}/@1/#2", picture=False)
    accepted = set()
    for _ in range(2):
        with pytest.raises(DeliveryFailed):
            deliver(channel, json.dumps(message).encode(), accepted=accepted, cancellation=under_way[-1])
        under_way.append(Cancellation())
    asked = [("user_id" in body, "group_id" in body) for body in receiver.bodies]
    assert asked == [(True, False), (False, True), (False, True)]


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """The TLS of a server that has the name of PagerDuty."""
    folder = tmp_path_factory.mktemp("certificate")
    key, chain = folder / "key.pem", folder / "chain.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = ["openssl", "req", "-x509", *curve, "-nodes", "-subj", "/CN=events.pagerduty.com"]
    subprocess.run([*command, "-keyout", key, "-out", chain], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    return context


@pytest.fixture
def refusals():
    """The statuses of the next answers of PagerDuty, which then accepts everything."""
    return []


@pytest.fixture
def incidents(certified, refusals, monkeypatch):
    """What PagerDuty receives, behind a proxy that answers in its place."""
    received = []

    class PagerDuty(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(refusals.pop() if refusals else 200)
            self.end_headers()

        def log_message(self, *_):
            """Print nothing."""

    class Proxy(PagerDuty):
        def do_CONNECT(self):
            self.send_response(200)
            self.end_headers()
            with certified.wrap_socket(self.connection, server_side=True) as encrypted:
                PagerDuty(encrypted, self.client_address, self.server)

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.server_address[1]}")
        yield received
        server.shutdown()
        thread.join()


@sqlite_only
def test_an_alert_has_one_incident_which_its_end_resolves(start_collector, scripted, incidents, tmp_path):
    """PagerDuty pages nobody because an alert has ended."""
    channel = (
        '[channels.pager]\nurl = "pagerduty://integration-key@api-key?verify=no"\n[[routes]]\nchannels = ["pager"]\n'
    )
    live = start_collector(engine=scripted, notifications=written(tmp_path, channel, AT_ONCE))
    live.send(run="r", records=[{"step": 7, "scalars": {"page": 1.0}}])
    eventually(lambda: incidents)
    live.send(run="r", records=[{"step": 8, "scalars": {"page": 0.0}}])
    eventually(lambda: len(incidents) == 2)
    opened, resolved = incidents
    assert [opened["event_action"], resolved["event_action"]] == ["trigger", "resolve"]
    assert opened["dedup_key"] == resolved["dedup_key"] == f"{live.get('/alerts')['items'][0]['id']}/critical"


@sqlite_only
def test_what_pagerduty_refuses_for_a_while_opens_and_resolves_its_incident_and_delays_no_later_alert(
    start_collector, scripted, incidents, refusals, tmp_path
):
    """The integration is disabled for a while: the message without its alerts is about the incident of its alert."""
    url = "pagerduty://integration-key@api-key?verify=no"
    channel = f'[channels.pager]\nurl = "{url}"\npicture = false\n[[routes]]\nchannels = ["pager"]\n'
    live = start_collector(engine=scripted, notifications=written(tmp_path, channel, AT_ONCE))
    for step, page in ((7, 1.0), (8, 0.0)):
        refusals += [400] * FAILING_ATTEMPTS
        before = len(incidents)
        live.send(run="r", records=[{"step": step, "scalars": {"page": page}}])
        eventually(lambda before=before: len(incidents) == before + FAILING_ATTEMPTS + 1)
    live.send(run="other", records=[{"step": 7, "scalars": {"page": 1.0}}])
    eventually(lambda: len(incidents) == 2 * FAILING_ATTEMPTS + 3)
    keys = {item["run"]: f"{item['id']}/critical" for item in live.get("/alerts")["items"]}
    found = [(each["event_action"], each["dedup_key"]) for each in incidents]
    opened, resolved = ([(action, keys["r"])] * (FAILING_ATTEMPTS + 1) for action in ("trigger", "resolve"))
    assert found == [*opened, *resolved, ("trigger", keys["other"])]


def test_a_message_about_no_incident_counts_as_accepted(incidents):
    """An earlier version has stored it without the alerts whose end it is about, and later alerts wait for it."""
    message = message_about([alert_item("a", ["resolved"])]) | {"alerts": [], "omitted_alerts": 1}
    channel = AppriseChannel(url="pagerduty://integration-key@api-key?verify=no", picture=False)
    deliver(channel, json.dumps(message).encode(), cancellation=Cancellation())
    assert incidents == []


def test_a_message_about_the_end_of_several_alerts_resolves_each_incident_that_they_opened(incidents):
    """One alert has become more severe and has two incidents; what opens in the same message has one of its own."""
    channel = AppriseChannel(url="pagerduty://integration-key@api-key?verify=no", picture=False)
    ended = [alert_item("a", ["resolved"]), alert_item("b", ["resolved"], severity_step=5)]
    message, accepted = message_about([alert_item("c", ["opened"]), *ended]), set()
    for _ in range(2):
        deliver(channel, json.dumps(message).encode(), accepted=accepted, cancellation=Cancellation())
    found = [(each["event_action"], each["dedup_key"]) for each in incidents]
    resolved = [("resolve", key) for key in ("a/critical", "b/info", "b/warning", "b/critical")]
    assert found == [*[("trigger", "c/critical")] * (len(found) - len(resolved)), *resolved]


@pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # of Apprise
def test_only_pagerduty_has_events_in_place_of_messages():
    """Other services of incidents state a key too, and their own words for actions."""
    urls = ["pagerduty://A@B", "goalert://host/token", "squadcast://token", "pagerduty://A@B?action=trigger"]
    services = [apprise.Apprise.instantiate(url) for url in urls]
    found = [takes_incidents(service, url) for service, url in zip(services, urls, strict=True)]
    assert found == [True, False, False, False]


def test_a_text_message_to_a_phone_is_one_part(incidents):
    """The sender pays for each; only longer texts name the message to which they belong."""
    url = f"https://vitals.example/runs/{'r' * 32}/alerts/{'a' * 32}"
    channel = AppriseChannel(url="d7sms://token@15551234567?verify=no", picture=False)
    message = message_about([alert_item("a", ["opened"]) | {"url": url}])
    deliver(channel, json.dumps(message).encode(), cancellation=Cancellation())
    (sent,) = incidents
    assert sent["messages"][0]["content"].endswith(url)


@pytest.mark.parametrize(("longest", "chosen"), [(160, "brief"), (1_024, "full"), (4_096, "long")])
def test_a_text_message_to_a_phone_is_a_title_and_an_address(longest, chosen):
    """Ten messages about one alert would follow each other for a minute, and cost as much."""
    service = SimpleNamespace(body_maxlen=longest, title_maxlen=0)  # as the services of Apprise state it
    texts = {"long": "x" * 4_000, "full": "x" * 1_400, "brief": "https://vitals.example/runs/r/alerts/a"}
    title = "[CRITICAL] death_spiral in r (p)"
    assert choose_body(list(texts.values()), title, service) == texts[chosen]
    assert choose_body(list(texts.values()), title, service, most_parts=100) != texts["brief"]
