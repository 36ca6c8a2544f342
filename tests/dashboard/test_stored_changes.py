"""A change that the collector has stored is reported as done, although nothing can be read after it."""

import contextvars
import json

import pytest
from dash import no_update

from dashboard.components.rules.form_values import FIELDS, fields_of
from dashboard.ids import alert as alert_ids
from dashboard.ids import fleet as fleet_ids
from dashboard.pages import alert, judgement
from dashboard.pages.fleet import views
from dashboard.pages.rules import form
from dashboard.pages.settings import keys, projects
from dashboard.sign_in.credentials import remember_credentials
from tests.dashboard.callbacks import Callbacks
from tests.failing import Failing
from tests.live import eventually
from tests.monitor_server.access.conftest import Guarded


@pytest.fixture
def live(start_collector):
    """A collector with a run that has an alert, and a project whose run has ended."""
    live = start_collector()
    records = [{"step": step, "scalars": {"grad/norm": "NaN"}} for step in range(3)]
    run_id = live.run(run="sick", project="p", records=records)
    live.run(run="ended", project="old", records=records[:1], end="finished")
    eventually(lambda: live.get("/alerts", run_id=run_id)["items"])
    return live


@pytest.fixture
def failing(live):
    """What makes the collector answer every reading request with 503."""
    failing = Failing(live)
    failing.method, failing.status = "GET", 503
    return failing


def test_a_key_is_shown_although_the_list_of_keys_cannot_be_read(live, failing, texts):
    """Nobody would see its text again. The first key is made elsewhere, and the page says where."""
    page = Callbacks(live.url, keys)
    said, *_ = page.call("make_key", 1, "night", "admin", None, None)
    assert "the first key is never made over HTTP: run `rlvitals keys create`" in texts(said)[0]
    guarded = Guarded(live)
    signed_in = contextvars.copy_context()
    signed_in.run(remember_credentials, [(b"authorization", f"Bearer {guarded.key('admin', name='root')}".encode())])
    said, made, listed = signed_in.run(page.call, "make_key", 1, "night", "admin", None, None)
    assert (said, listed) == (None, no_update)
    failing.status = 0
    held = guarded.ask("GET", "/api/v1/keys", texts(made)[-1]).json()["items"]
    assert [key["name"] for key in held] == ["root", "night"]


def test_a_rule_that_was_saved_is_changed_by_the_next_press(live, failing):
    """The form holds the new rule, also where the list of rules could not be read."""
    page = Callbacks(live.url, form)
    fields = fields_of({"name": "mine", "condition": "threshold", "signal": "a", "operator": ">", "value": 1.0})
    said, title, listed, edited, *_ = page.call("save", 1, None, *fields.values())
    assert (said, title, listed) == ("Saved: a > 1", "Change the rule mine", no_update)
    failing.status = 0
    fields["value"] = 2.0
    assert page.call("save", 2, edited, *(fields[name] for name in FIELDS))[0] == "Saved: a > 2"
    assert [rule["rule"]["value"] for rule in live.get("/rules")["items"]] == [2.0]


def test_a_view_is_saved_and_a_project_is_deleted(live, failing):
    """None of them is called refused, so that nobody does it again."""
    wanted = {"name": "mine", "query": "", "seen": None}
    answer, again = (
        Callbacks(live.url, views).call("change", wanted, None, None, by=fleet_ids.VIEW_TO_SAVE) for _ in range(2)
    )
    assert answer[:3] == again[:3] == (no_update,) * 3
    assert answer[3].startswith("Saved. The list of views was not read. The collector answered 503")
    assert again[3].startswith("The collector answered 409")
    assert Callbacks(live.url, projects).call("delete_project", 1, "old") == ("old is deleted.", no_update)
    failing.status = 0
    assert [view["name"] for view in live.get("/views")["items"]] == ["mine"]
    assert [run["name"] for run in live.get("/runs")["items"]] == ["sick"]


def test_an_alert_is_acknowledged_and_judged(live, failing):
    """The page is read again by itself."""
    failing.status = 0
    (held, *_) = live.get("/alerts")["items"]
    failing.status = 503
    said, again = Callbacks(live.url, alert).call("acknowledge", 1, {"alert": held["id"]})
    assert (said, again) == ("Acknowledged.", "acknowledgement 1")
    page, pressed = Callbacks(live.url, judgement), alert_ids.judgement("right", held["id"])
    forms = [{"id": pressed, "value": 1}]
    state = json.dumps(alert_ids.judgement("state", held["id"]), sort_keys=True, separators=(",", ":"))
    for shown, also in (("run", set()), ("alert", {alert_ids.REFRESH})):
        page.call(
            "judge", [1], [None], [None], [None], [None], {"page": shown, "run": held["run_id"]},
            by=pressed, inputs_list=[forms, []], states_list=[[], [], []],
        )  # fmt: skip
        assert page.set[state] == {"children": "Right, says the dashboard"}
        assert also <= page.set.keys()
