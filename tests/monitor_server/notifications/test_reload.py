"""The file of channels and routes is read again without a restart; a file that cannot be used changes nothing."""

import logging
import threading
from pathlib import Path

import pytest
import urllib3

from monitor_server.commands.main import main
from monitor_server.configuration_files.watching import SETTLED_SECONDS
from monitor_server.errors import StartupError, Unavailable
from monitor_server.notifications.configuration.current import CurrentFile
from tests.databases import sqlite_only
from tests.live import eventually
from tests.monitor_server.notifications.receivers import receiving, webhook, written

AT_ONCE = "[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n"


def route(name):
    return f'[[routes]]\nchannels = ["{name}"]\n'


def channels(live):
    return [item["name"] for item in live.get("/notifications/channels")["items"]]


@sqlite_only
def test_the_command_puts_a_changed_file_into_force(notifying, receiver, tmp_path, capsys):
    """The next alert goes to the new channel; the metrics have the channel, and the audit log has an entry."""
    live = notifying(AT_ONCE, route("hook"))
    with receiving() as other:
        written(tmp_path, webhook("other", other.url), AT_ONCE, route("other"))
        assert main(["notifications", "reload", "--url", live.url]) == 0
        assert "1 channels, 1 routes" in capsys.readouterr().out
        live.send(run="r", records=[{"step": 0, "scalars": {"warn": 1.0}}])
        eventually(lambda: other.bodies)
        assert channels(live) == ["other"]
        metrics = live.pool.request("GET", f"{live.url}/metrics").data.decode()
        assert 'rlvitals_notifications_waiting{channel="other"}' in metrics
        assert 'rlvitals_notifications_waiting{channel="hook"}' not in metrics
        assert "notifications.reload" in [entry["action"] for entry in live.get("/audit")["items"]]
    assert receiver.received == []


@sqlite_only
def test_a_changed_file_is_found(notifying, tmp_path):
    """A second after it was written, without a command."""
    live = notifying(AT_ONCE, route("hook"))
    with receiving() as other:
        written(tmp_path, webhook("other", other.url), AT_ONCE, route("other"))
        eventually(lambda: channels(live) == ["other"])
        (entry,) = eventually(
            lambda: [each for each in live.get("/audit")["items"] if each["action"] == "notifications.reload"]
        )
        assert (entry["by"], entry["detail"]) == ("whoever wrote the file", "1 channels, 1 routes")


@sqlite_only
def test_a_changed_file_is_taken_up_once_the_database_is_back(notifying, tmp_path, caplog):
    """The database file is away when the change is found; the audit log has its entry all the same, once."""
    caplog.set_level(logging.INFO)
    live = notifying(AT_ONCE, route("hook"))
    database = Path(live.app.state.collector.settings.database_url.removeprefix("sqlite:///"))
    aside = database.rename(tmp_path / "aside.db")
    with receiving() as other:
        written(tmp_path, webhook("other", other.url), AT_ONCE, route("other"))
        eventually(lambda: "was read again" in caplog.text)
        with pytest.raises(Unavailable):  # as at each look, so that it is still to be taken up
            live.app.state.collector.notifier.follow_file()
        eventually(lambda: "notifications could not be read or written, which is tried again" in caplog.text)
        aside.rename(database)
        (entry,) = eventually(
            lambda: [each for each in live.get("/audit")["items"] if each["action"] == "notifications.reload"]
        )
        assert entry["detail"] == "1 channels, 1 routes"
    (read,) = [record for record in caplog.records if "was read again" in record.message]
    assert read.levelno == logging.INFO  # nothing that an operator has to look at


@sqlite_only
def test_a_file_that_cannot_be_used_changes_nothing_and_says_why(notifying, receiver, tmp_path, capsys):
    """The place is named, and the alert goes where it went before."""
    live = notifying(AT_ONCE, route("hook"))
    written(tmp_path, webhook("hook", receiver.url), '[[routes]]\nchannels = ["nobody"]\n')
    assert main(["notifications", "reload", "--url", live.url]) == 1
    assert "routes[0].channels[0] must be the name of a channel" in capsys.readouterr().err
    assert channels(live) == ["hook"]
    live.send(run="r", records=[{"step": 0, "scalars": {"warn": 1.0}}])
    eventually(lambda: receiver.bodies)


@sqlite_only
def test_a_file_that_cannot_be_used_is_a_problem_until_it_can(notifying, receiver, tmp_path, capsys):
    """Nobody may have read the log, and the next start would end: the settings, the status and the doctor say it."""
    live = notifying(AT_ONCE, route("hook"))
    written(tmp_path, webhook("hook", receiver.url), route("nobody"))
    problem = eventually(lambda: live.get("/notifications/settings")["problem"])
    assert "routes[0].channels[0] must be the name of a channel" in problem
    assert live.get("/status")["notifications_problem"] == problem
    main(["doctor", "--url", live.url])
    assert "the newest channels and routes are not in force" in capsys.readouterr().out
    written(tmp_path, webhook("hook", receiver.url), route("hook"))
    eventually(lambda: live.get("/status")["notifications_problem"] is None)
    file = tmp_path / "notifications.toml"
    away = file.rename(tmp_path / "away.toml")
    eventually(lambda: live.get("/status")["notifications_problem"])
    away.rename(file)
    eventually(lambda: live.get("/status")["notifications_problem"] is None)


@sqlite_only
def test_without_a_file_there_is_nothing_to_reload(start_collector):
    """The answer is 404 and names the setting."""
    live = start_collector()
    answer = live.pool.request("POST", f"{live.url}/api/v1/notifications/reload")
    assert answer.status == 404
    assert "RLVITALS_NOTIFICATIONS" in answer.json()["detail"]


def test_a_file_that_is_being_written_is_left_alone(tmp_path, caplog):
    """The file is read once it has not changed for a while, and a broken one is logged once."""
    path, now, reads = tmp_path / "file", [0.0], []

    def read(found):
        text = found.read_text()
        reads.append(text)
        if "broken" in text:
            raise StartupError("it is broken")
        return type("File", (), {"channels": [text], "routes": []})()

    path.write_text("first")
    current = CurrentFile(path, read, monotonic=lambda: now[0])
    assert not current.refresh()
    path.write_text("second, half")
    assert not current.refresh()
    now[0] += SETTLED_SECONDS / 2
    path.write_text("second, as a whole")
    assert not current.refresh()
    now[0] += SETTLED_SECONDS
    assert current.refresh()
    assert current.file.channels == ["second, as a whole"]
    assert not current.refresh()
    path.write_text("broken now")
    for _ in range(3):
        assert not current.refresh()
        now[0] += SETTLED_SECONDS
    assert current.file.channels == ["second, as a whole"]
    assert reads == ["first", "second, as a whole", "broken now"]
    assert caplog.text.count("it is broken") == 1
    path.unlink()
    assert not current.refresh()


def test_reloads_at_once_delay_no_trainer(notifying, monkeypatch):
    """For any number of requests one is checked at a time; the others hold no thread meanwhile."""
    live = notifying()
    address, answers = f"{live.url}/api/v1/notifications/reload", []

    def ask():
        answers.append(urllib3.request("POST", address, timeout=60).status)

    asking = [threading.Thread(target=ask) for _ in range(40)]
    may_end = threading.Event()

    def check_for_long(self, reload=CurrentFile.reload):
        may_end.wait(60)
        return reload(self)

    monkeypatch.setattr(CurrentFile, "reload", check_for_long)
    for each in asking:
        each.start()
    eventually(live.app.state.collector.settings_turns.locked)
    live.send(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    may_end.set()
    for each in asking:
        each.join()
    assert answers == [200] * 40
