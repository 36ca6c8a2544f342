"""Channels and routes saved over HTTP: in force at once, announced to earlier channels, without secrets in answers."""

import json
import threading
import time

import pytest

from monitor_server.notifications import saving
from monitor_server.notifications.configuration.networks import Networks
from monitor_server.notifications.configuration.stored import SavedDocument
from tests.databases import sqlite_only
from tests.live import eventually
from tests.monitor_server.access.conftest import Guarded
from tests.monitor_server.notifications.receivers import SECRET, Receiver, receiving

SETTINGS = "/api/v1/notifications/settings"
AT_ONCE = {"wait_seconds": 0, "window_seconds": 0}
ROUTE = {"channels": ["hook"]}
NOTHING = {"channels": {}, "routes": []}


@pytest.fixture
def guarded(start_collector, scripted):
    """A collector without a file, whose saved channels may reach the loopback."""
    return Guarded(start_collector(engine=scripted, channel_networks="127.0.0.0/8"))


@pytest.fixture
def admin(guarded):
    return guarded.key("admin", name="root")


def hook(receiver: Receiver, **fields):
    return {"type": "webhook", "url": receiver.url + "/in/xoxb-path", "secret": SECRET} | fields


def document(channels, routes=(ROUTE,), **tables):
    return {"channels": channels, "routes": list(routes), "grouping": AT_ONCE} | tables


def save(guarded, key, settings, version=0, **body):
    return guarded.ask("PUT", SETTINGS, key, body={"version": version, "settings": settings} | body)


def saved(*arguments, **options):
    answer = save(*arguments, **options)
    assert answer.status == 200, answer.data
    return answer.json()


def problem(answer, status=422):
    assert answer.status == status, answer.data
    return answer.json()["detail"]


def alert(guarded, key, run="r"):
    guarded.send(key, run=run, steps=1, warn=1.0)


def audit(guarded, key):
    return guarded.ask("GET", "/api/v1/audit", key).json()["items"]


@sqlite_only
def test_the_attempts_of_a_saved_channel_are_counted_from_zero(guarded, admin, receiver):
    """Its first failure is then an increase, without a restart."""
    saved(guarded, admin, document({"hook": hook(receiver)}))
    failed = 'rlvitals_notification_attempts_total{channel="hook",result="failed"} 0.0'
    eventually(lambda: failed in guarded.ask("GET", "/metrics", admin).data.decode())


def test_a_saved_channel_is_notified_at_once_and_shown_without_its_secrets(guarded, admin, receiver):
    """Before the save nobody is notified; the audit log has the saved version and its author."""
    first = guarded.ask("GET", SETTINGS, admin).json()
    assert (first["source"], first["version"], first["channels"], first["routes"]) == ("saved", 0, {}, [])
    answer = saved(guarded, admin, document({"hook": hook(receiver)}), by="ann")
    assert (answer["version"], answer["saved_by"], answer["problem"]) == (1, "ann (root)", "")
    assert answer["channels"]["hook"]["address"] == f"{receiver.url}/..."
    alert(guarded, admin)
    eventually(lambda: receiver.changes == [("r", ("opened",))])
    entry = audit(guarded, admin)[0]
    assert (entry["action"], entry["by"]) == ("notifications.change", "ann (root)")
    added = f"channel hook added, to {receiver.url}/..."
    assert entry["detail"] == f"routes changed (0 before, 1 now); grouping changed; {added}"
    assert guarded.ask("POST", "/api/v1/notifications/channels/hook/test", admin, body={}).status == 200


@sqlite_only
def test_a_secret_is_in_no_answer_log_or_export(guarded, admin, receiver, caplog):
    """The secret is in no answer, refusal, version, audit log or report, nor in messages to other channels."""
    caplog.set_level("DEBUG")
    address = "xoxb-path"
    settings = document({"hook": hook(receiver), "other": {"url": "json://127.0.0.1/token-of-apprise"}})
    saved(guarded, admin, settings)
    bad = [
        document({"hook": hook(receiver, secret="short-secret")}),  # noqa: S106 - of the test
        document({"hook": hook(receiver, url="ftp://x/xoxb-path")}),
        document({"hook": hook(receiver, more=1)}, ["xx"]),
        document({"other": {"url": "token-of-apprise"}}, [{"channels": ["other"]}]),
        document({"hook": {"type": "webhook", "url": [address]}}),
        document({"hook": f"slack://{address}"}),
        document(f"slack://{address}"),
        document({"other": {"url": "token-of-apprise json://127.0.0.1/"}}, [{"channels": ["other"]}]),
    ]
    answers = [save(guarded, admin, each, version=1).data.decode() for each in bad]
    alert(guarded, admin)
    eventually(lambda: receiver.bodies)
    saved(guarded, admin, document({"hook": {"type": "webhook", "actions": False}}), version=1)
    found = guarded.ask("GET", "/api/v1/alerts", admin).json()["items"][0]
    reads = [
        SETTINGS, f"{SETTINGS}/versions", "/api/v1/audit", "/api/v1/notifications/channels", "/api/v1/status",
        f"/api/v1/alerts/{found['id']}/incident", "/api/v1/export?project=ours", "/metrics", "/readyz",
    ]  # fmt: skip
    for path in reads:
        answer = guarded.ask("GET", path, admin)
        assert answer.status == 200, path
        answers.append(answer.data.decode())
    answers.append(guarded.ask("POST", f"{SETTINGS}/versions/1/restore", admin, body={"version": 2}).data.decode())
    everything = "".join(answers) + caplog.text + "".join(body.decode() for _, body in receiver.received)
    assert not [text for text in (SECRET, address, "token-of-apprise", "short-secret") if text in everything]


@sqlite_only
def test_a_secret_that_is_left_out_is_kept_but_not_for_another_address(guarded, admin, receiver):
    """Otherwise the author of an address would receive signed messages, and could sign as the collector."""
    saved(guarded, admin, document({"hook": hook(receiver)}))
    kept = {"type": "webhook", "secret": "", "actions": False}
    saved(guarded, admin, document({"hook": kept}, [ROUTE | {"severity": "critical"}]), version=1)
    assert guarded.ask("POST", "/api/v1/notifications/channels/hook/test", admin, body={}).status == 200
    with receiving() as other:
        moved = {"type": "webhook", "url": other.url}
        answer = save(guarded, admin, document({"hook": moved}), version=2)
        assert problem(answer) == "channels.hook.secret must be written again, because the address changes"
        renamed = document({"new": {"type": "webhook", "url": other.url}}, [{"channels": ["new"]}])
        assert "channels.new.secret must be set" in problem(save(guarded, admin, renamed, version=2))
        assert "channels.hook.url must be set" in problem(
            save(guarded, admin, document({"hook": {"type": "apprise"}}), version=2)
        )
        saved(guarded, admin, document({"hook": moved | {"secret": "another-secret-0123"}}), version=2)
    assert other.received == []


@sqlite_only
def test_what_cannot_be_used_is_said_in_words_and_changes_nothing(guarded, admin, receiver):
    """The refusal has the place; neither variables nor files of the collector can be named, also through Apprise."""
    cases = {
        "channels.hook.url must not name ${...}": {"hook": hook(receiver, url="https://x.org/${HOME}")},
        "channels.hook.secret must not name ${...}": {"hook": hook(receiver, secret="${HOME}")},  # noqa: S106
        "channels.hook.url_file is not known": {"hook": hook(receiver, url_file="/etc/passwd")},
        "channels.hook.secret must have at least 16 characters": {"hook": hook(receiver, secret="x")},  # noqa: S106
        "channels.hook.type must be 'apprise', 'webhook'": {"hook": {"type": "x", "url": "x://"}},
        "channels.Hook! must have 1 to 40 small letters": {"Hook!": hook(receiver)},
        "channels.hook.url must be a URL that Apprise knows": {"hook": {"url": "nothing://x"}},
        "channels.hook.url must have a public address": {"hook": hook(receiver, url="http://169.254.169.254/x")},
        "channels.hook.url must have a public address, or": {"hook": {"url": "jsons://user:secret@[::1]:8600/x"}},
        "channels.hook.url must be a URL that Apprise knows (": {"hook": {"url": "json://[::1"}},
        "channels.hook.actions needs RLVITALS_PUBLIC_URL": {"hook": hook(receiver, actions=True)},
    }
    for words, channels in cases.items():
        assert words in problem(save(guarded, admin, document(channels))), words
    routes = {
        "routes[0].channels[0] must be the name of a channel (hook), got 'nobody'": [{"channels": ["nobody"]}],
        "routes[0].severity must be 'info', 'warning' or 'critical', got 'paging'": [ROUTE | {"severity": "paging"}],
        "routes[0].time_zone must be the name of a time zone": [ROUTE | {"time_zone": "Berlin"}],
        "routes must hold": [],
    }
    for words, given in routes.items():
        assert words in problem(save(guarded, admin, document({"hook": hook(receiver)}, given))), words
    long = [ROUTE | {"projects": ["x" * 60_000, "y" * 60_000]}]
    assert "at most 100,000 characters" in problem(save(guarded, admin, document({"hook": hook(receiver)}, long)))
    assert guarded.ask("GET", SETTINGS, admin).json()["version"] == 0
    for text in ("\ud800", "\udc00" * 16):
        odd = {"hook": hook(receiver, secret=text)}, [ROUTE | {"projects": [text]}]
        assert "must be Unicode text" in problem(save(guarded, admin, document(*odd)))
    assert problem(save(guarded, admin, {})) == "channels must be set; routes must be set"
    assert "more is not known" in problem(save(guarded, admin, NOTHING | {"more": {}}))
    for version in (-1, "0", False):
        assert "version" in problem(save(guarded, admin, document({"hook": hook(receiver)}), version=version))
    assert save(guarded, admin, [], version=0).status == 422


@sqlite_only
def test_a_document_without_channels_is_checked_as_every_other(guarded, admin):
    """Each wrong table is refused with its place; right ones are kept, and there is no fallback channel."""
    wrong = {
        "match must be 'first' or 'all', got 5": {"match": 5},
        "version must be 1, got 2": {"version": 2},
        "grouping must hold": {"grouping": "soon"},
        "grouping.wait_seconds must hold": {"grouping": {"wait_seconds": -1}},
        "limits.more is not known": {"limits": {"more": 1}},
        "fallback.channel must be the name of a channel (there is none), got 'hook'": {"fallback": {"channel": "hook"}},
    }
    for words, tables in wrong.items():
        assert words in problem(save(guarded, admin, NOTHING | tables)), words
    assert guarded.ask("GET", SETTINGS, admin).json()["version"] == 0
    kept = saved(guarded, admin, NOTHING | {"limits": {"messages_per_hour": 7}})
    assert (kept["version"], kept["limits"]["messages_per_hour"], kept["channels"]) == (1, 7, {})


def test_of_two_who_save_at_once_one_is_told_that_the_other_was_first(guarded, admin, receiver):
    """Each saves one version, in any order; a refused version can be saved once its author has read the newer one."""
    answers, start = [], threading.Barrier(4)

    def save_one(number):
        start.wait()
        route = ROUTE | {"projects": [f"p{number}"]}
        answers.append(save(guarded, admin, document({"hook": hook(receiver)}, [route]), by=f"n{number}"))

    threads = [threading.Thread(target=save_one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409]
    (won,) = [answer.json() for answer in answers if answer.status == 200]
    lost = [answer.json()["detail"] for answer in answers if answer.status == 409]
    assert all(f"version must be the one that is in force, 1, by {won['saved_by']}, got 0" in text for text in lost)
    assert guarded.ask("GET", SETTINGS, admin).json()["routes"] == won["routes"]
    saved(guarded, admin, document({"hook": hook(receiver)}), version=1)


def test_the_channels_before_are_told_of_a_change_once_and_nobody_can_prevent_it(guarded, admin, receiver):
    """A thief redirects everything and saves again at once: the earlier channels learn the author and the change."""
    saved(guarded, admin, document({"hook": hook(receiver)}))
    thief = guarded.key("admin", name="stolen")
    with receiving() as evil:
        limits = {"give_up_hours": 1e-9}
        own = document({"mine": hook(evil, url=evil.url)}, [{"channels": ["mine"]}], limits=limits)
        receiver.answer = lambda _: 500 if len(receiver.received) == 1 else 200  # a limit counts only after a failure
        saved(guarded, thief, own, version=1)
        saved(guarded, thief, NOTHING | {"limits": limits}, version=2)
        body, again = eventually(lambda: receiver.bodies if len(receiver.received) == 2 else None)
        eventually(lambda: evil.bodies)
    assert body == again
    assert body["title"] == "rlvitals: somebody has changed who is notified"
    assert body["notice"].startswith(
        "stolen has changed the channels and routes of notifications: channel hook removed"
    )
    assert f"channel mine added, to {evil.url}/..." in body["notice"]
    assert (body["channel"], body["alerts"]) == ("hook", [])
    alert(guarded, admin)
    restored = guarded.ask("POST", f"{SETTINGS}/versions/1/restore", admin, body={"version": 3})
    assert restored.json()["version"] == 4
    alert(guarded, admin, run="s")
    eventually(lambda: receiver.changes == [("s", ("opened",))])


@sqlite_only
def test_a_notice_that_waits_outlives_the_collector_and_the_failure_of_its_receiver(
    start_collector, scripted, receiver
):
    """The next process sends it to the address of that time, and its failure is no alert about a channel."""
    settings = {"engine": scripted, "channel_networks": "127.0.0.0/8"}
    first = Guarded(start_collector(**settings))
    saved(first, None, document({"hook": hook(receiver)}))
    receiver.answer = lambda _: 500
    saved(first, None, NOTHING, version=1)
    eventually(lambda: len(receiver.received) >= 4)
    first.live.server.should_exit = True
    receiver.answer = lambda _: 200
    second = Guarded(start_collector(**settings))
    store = second.live.app.state.collector.store

    def waiting():
        with store.read() as repositories:
            return repositories.notification_messages.former_channels()

    eventually(lambda: waiting() == [])
    assert {body["id"] for body in receiver.bodies} == {receiver.bodies[0]["id"]}
    assert second.ask("GET", "/api/v1/alerts").json()["items"] == []


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_another_collector_of_the_database_takes_a_change_up(start_collector, scripted, receiver):
    """One collector answers readers and saves; another detects and notifies. The first tests the current settings."""
    settings = {"engine": scripted, "channel_networks": "127.0.0.0/8"}
    web = Guarded(start_collector(role="web", **settings))
    whole = Guarded(start_collector(**settings))
    saved(web, None, document({"hook": hook(receiver)}))
    alert(whole, None)
    eventually(lambda: receiver.changes == [("r", ("opened",))])
    saved(whole, None, document({"second": hook(receiver)}, [{"channels": ["second"]}]), version=1)
    assert web.ask("POST", "/api/v1/notifications/channels/second/test", body={}).status == 200
    assert web.ask("POST", "/api/v1/notifications/channels/hook/test", body={}).status == 404
    assert 'channel="second"' in web.ask("GET", "/metrics").data.decode()
    start, statuses = threading.Barrier(2), []

    def save_one(guarded):
        start.wait()
        statuses.append(save(guarded, None, NOTHING, version=2).status)

    threads = [threading.Thread(target=save_one, args=(each,)) for each in (web, whole)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 409]


@sqlite_only
def test_versions_are_kept_for_a_week_and_twenty_longer(start_collector, scripted, clock, receiver):
    """Frequent saves remove no version early; a version that is no longer kept is not found."""
    guarded = Guarded(start_collector(engine=scripted, clock=clock, channel_networks="127.0.0.0/8"))
    for version in range(30):
        saved(
            guarded, None, document({"hook": hook(receiver)}, [ROUTE | {"projects": [str(version)]}]), version=version
        )
    listed = guarded.ask("GET", f"{SETTINGS}/versions?limit=1000").json()["items"]
    assert [item["version"] for item in listed] == list(range(30, 0, -1))
    assert len({body["id"] for body in eventually(lambda: receiver.bodies)}) <= saving.MAX_NOTICES
    clock.now += saving.KEPT_SECONDS + 1
    saved(guarded, None, NOTHING, version=30)
    listed = guarded.ask("GET", f"{SETTINGS}/versions?limit=1000").json()["items"]
    assert [item["version"] for item in listed] == list(range(31, 11, -1))
    answer = guarded.ask("POST", f"{SETTINGS}/versions/11/restore", body={"version": 31})
    assert "version 11 is not kept" in problem(answer, 404)


@sqlite_only
def test_changes_of_little_account_do_not_use_up_the_notice_of_a_removal(guarded, admin, receiver):
    """A save without a change is no version; a channel with many notices still gets the notice of its removal."""
    saved(guarded, admin, document({"hook": hook(receiver)}))
    assert saved(guarded, admin, document({"hook": hook(receiver)}), version=1)["version"] == 1
    for version in range(1, saving.MAX_NOTICES + 3):
        channels = {"hook": hook(receiver)} | ({"spare": hook(receiver)} if version % 2 else {})
        saved(guarded, admin, document(channels), version=version)
    longer = document({"hook": hook(receiver)}, grouping={"window_seconds": 86_400})
    saved(guarded, admin, longer, version=saving.MAX_NOTICES + 3)
    eventually(lambda: [body for body in receiver.bodies if "grouping changed" in body["notice"]])
    saved(guarded, admin, NOTHING, version=saving.MAX_NOTICES + 4)
    eventually(lambda: [body for body in receiver.bodies if "channel hook removed" in body["notice"]])


@sqlite_only
def test_a_file_alone_counts_where_one_is_named(notifying, receiver):
    """A save is refused with the reason, and the file's contents are shown without its secrets."""
    live = Guarded(notifying())
    admin = live.key("admin")
    shown = live.ask("GET", SETTINGS, admin).json()
    assert (shown["source"], shown["version"], list(shown["channels"])) == ("file", 0, ["hook"])
    assert SECRET not in json.dumps(shown)
    assert "RLVITALS_NOTIFICATIONS" in problem(save(live, admin, document({"hook": hook(receiver)})), 409)
    assert "RLVITALS_NOTIFICATIONS" in problem(
        live.ask("POST", f"{SETTINGS}/versions/1/restore", admin, body={"version": 0}), 409
    )


def test_a_document_that_this_version_cannot_read_changes_nothing_and_says_so(guarded, admin, receiver):
    """This happens after a downgrade: the settings in force stay, and another version can be saved."""
    saved(guarded, admin, document({"hook": hook(receiver)}))
    collector = guarded.live.app.state.collector
    with collector.store.write() as repositories:
        repositories.notification_documents.lock()  # as whoever saves: no worker drops the notice as left over
        stored = repositories.notification_documents.find(1)
        newer = {"version": 2, "channels": stored.document["channels"], "routes": stored.document["routes"]}
        repositories.notification_documents.add(type(stored)(
            version=2, saved_at=stored.saved_at, saved_by="newer", changes="", document=newer
        ))  # fmt: skip
        notice = b'{"id": "n", "notice": "newer has changed the channels"}'
        repositories.notification_messages.add_notice("n", "hook@1", notice, severity="critical", now=time.time())
    eventually(lambda: notice in [body for _, body in receiver.received])  # without a restart
    begun = SavedDocument(collector.store, Networks())
    assert (list(begun.file.channels), begun.is_newest) == (["hook"], False)
    shown = guarded.ask("GET", SETTINGS, admin).json()
    assert (shown["version"], list(shown["channels"])) == (2, ["hook"])
    assert "version must be 1" in shown["problem"]
    assert SECRET not in shown["problem"]
    assert saved(guarded, admin, document({"hook": {"type": "webhook"}}), version=2)["problem"] == ""


@sqlite_only
def test_a_route_for_a_kind_that_no_alert_has_is_not_saved(guarded, admin, receiver):
    """It would notify nobody; rules may be named before they are written."""
    routes = [ROUTE, ROUTE | {"kinds": ["rule:mine", "death_sprial"]}]
    said = problem(save(guarded, admin, document({"hook": hook(receiver)}, routes)))
    assert said.startswith("routes[1].kinds[1] must be a kind of alert, got 'death_sprial'; the kinds are ")
    assert "death_spiral" in said
    routes[1]["kinds"][1] = "death_spiral"
    saved(guarded, admin, document({"hook": hook(receiver)}, routes))
