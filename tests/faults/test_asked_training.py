"""A real trainer in its own process is stopped by the link of a notification that somebody opens."""

import os
import re
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from tests import warm
from tests.databases import sqlite_only
from tests.live import eventually
from tests.monitor_server.conftest import ScriptedEngine
from tests.monitor_server.notifications.receivers import receiving, webhook, written

ROOT = Path(__file__).parents[2]
TRAINING = Path(__file__).with_name("asked_training.py")
REST = 'actions = true\n[[routes]]\nchannels = ["hook"]\n[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n'
PUBLIC = "https://vitals.example"
SECONDS = 120.0  # to import torch on a busy machine


@sqlite_only
def test_a_link_stops_a_training_and_the_alert_tells_its_story(start_collector, tmp_path, monkeypatch):
    """The button is pressed, the loop ends after a step, and the history has request, answer and result, each once."""
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path / "spool"))
    with receiving() as receiver:
        path = written(tmp_path, webhook("hook", receiver.url) + REST)
        live = start_collector(engine=ScriptedEngine, notifications=path, public_url=PUBLIC)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with tempfile.TemporaryFile("w+") as printed:
            process = warm.start([str(TRAINING), live.url, "stop"], env=environment, stdout=printed.fileno())
            try:
                alert = eventually(lambda: receiver.bodies, seconds=SECONDS)[0]["alerts"][0]
                (link,) = [each["url"] for each in alert["links"] if each["action"] == "stop"]
                address = link.replace(PUBLIC, live.url)
                page = live.pool.request("GET", address).data.decode()
                assert "The trainer is asked to end training" in page
                assert process.poll() is None
                confirmation = re.search(r'name="confirmation" value="([^"]+)"', page)[1]
                headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "null"}
                body = urlencode({"confirmation": confirmation})
                assert live.pool.request("POST", address, body=body, headers=headers).status == 200
                assert process.wait(SECONDS) == 0
            finally:
                process.kill()
            printed.seek(0)
            announced, decided = printed.read().splitlines()
        assert announced.startswith("rlvitals: stop, requested by link sent to hook: critical scripted")
        assert decided.startswith("stop requested by link sent to hook: critical scripted")

        def changes():
            items = live.get(f"/alerts/{alert['id']}/history")["items"]
            return [each["change"] for each in reversed(items) if each["change"].startswith("action")]

        eventually(lambda: "action_followed" in changes())
        assert changes() == ["action_requested", "action_received", "action_done", "action_followed"]
        (request,) = live.get(f"/alerts/{alert['id']}/actions")["items"]
        assert (request["state"], request["requested_by"]) == ("done", "link sent to hook")
        (run,) = live.get("/runs")["items"]
        assert run["status"] == "finished"
        audited = [(each["action"], each["by"]) for each in live.get("/audit")["items"]]
        assert ("run.stop", "link sent to hook") in audited
