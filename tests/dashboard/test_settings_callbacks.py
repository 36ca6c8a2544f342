"""The callbacks of the forms of Settings, on a real collector: none overwrites what somebody else has saved."""

import json

import pytest
from dash import no_update

from dashboard.components.settings.channel_form_values import CHANNEL_FIELDS, DELIVERY_FIELDS, ROUTE_FIELDS
from dashboard.components.settings.retention_form import LIMIT_FIELDS
from dashboard.ids.settings import channels as channel_ids
from dashboard.ids.settings import retention as retention_ids
from dashboard.pages.settings import channel_buttons, channel_form, filled_forms, retention, route_form
from tests.dashboard.callbacks import Callbacks
from tests.failing import Failing

HOOK = {"type": "webhook", "url": "https://127.0.0.1/in", "secret": "0123456789abcdef"}
LIMITS = dict.fromkeys(LIMIT_FIELDS)


@pytest.fixture
def live(start_collector):
    """A collector with a channel and three routes, which differ in their projects."""
    live = start_collector(channel_networks="127.0.0.0/8")
    routes = [{"channels": ["hook"], "projects": [f"p{number}"]} for number in range(3)]
    save(live, 0, {"channels": {"hook": HOOK}, "routes": routes})
    return live


@pytest.fixture
def page(live):
    """The callbacks of the page of settings of that collector."""
    return Callbacks(live.url, channel_buttons, channel_form, filled_forms, retention, route_form)


def ask(live, method, path, body=None):
    content = None if body is None else json.dumps(body)
    answer = live.pool.request(
        method, f"{live.url}/api/v1{path}", body=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status == 200, answer.data
    return answer.json()


def save(live, version, settings):
    return ask(live, "PUT", "/notifications/settings", {"version": version, "settings": settings})


def projects(live):
    return [route["projects"] for route in ask(live, "GET", "/notifications/settings")["routes"]]


def edit(page, number, version):
    """Press Edit beside a route; return the contents of the form: the place of the route, and its fields."""
    edited, _, is_open, said, *fields = page.call(
        "fill_route", [1], None, version, by=channel_ids.route_button("edit", number)
    )
    assert is_open
    return edited, said, fields[: len(ROUTE_FIELDS)]


@pytest.mark.parametrize(("action", "moved", "left"), [("remove", 0, ["p1", "p2"]), ("up", 2, ["p0", "p2", "p1"])])
def test_a_route_is_not_written_to_the_place_of_another(live, page, action, moved, left):
    """The form is open while a route is removed or moved; with Edit again it is saved at its place."""
    edited, _, fields = edit(page, 1, 1)
    said, *_ = page.call("act", [], [1], [], 1, by=channel_ids.route_button(action, moved))
    assert said.startswith("Saved.")
    said, *_ = page.call("save_route", 1, 2, edited, *fields)
    assert "press Edit beside the route again" in said
    assert projects(live) == [[name] for name in left]
    edited, _, fields = edit(page, left.index("p1"), 2)
    fields[ROUTE_FIELDS.index("projects")] = "mine"
    assert page.call("save_route", 1, 2, edited, *fields)[0] == "Saved."
    assert projects(live) == [["mine" if name == "p1" else name] for name in left]


def test_to_save_a_route_again_after_a_conflict_writes_over_no_other(live, page):
    """Edit fills the form with the route that is shown beside it."""
    edited, _, fields = edit(page, 1, 1)
    save(live, 1, {"channels": {"hook": HOOK}, "routes": [{"channels": ["hook"], "projects": [p]} for p in "abc"]})
    said, held, _, shown, *_ = page.call("save_route", 1, 1, edited, *fields)
    assert (said.startswith("Not saved."), held, shown[0].data) == (True, no_update, 2)
    assert "press Edit" in page.call("save_route", 2, 2, edited, *fields)[0]
    assert projects(live) == [["a"], ["b"], ["c"]]
    edited, said, fields = edit(page, 1, 1)
    assert (edited, "Open the page again" in said, set(fields)) == (no_update, True, {no_update})


def test_a_route_that_was_saved_is_saved_again_at_its_place(live, page):
    """A new one is not added twice."""
    fields = edit(page, 1, 1)[2]
    fields[ROUTE_FIELDS.index("projects")] = "new"
    said, edited, title, *_ = page.call("save_route", 1, 1, None, *fields)
    assert (said, edited, title) == ("Saved.", {"route": 3, "version": 2}, "Change route 4")
    fields[ROUTE_FIELDS.index("projects")] = "newer"
    assert page.call("save_route", 2, 2, edited, *fields)[0] == "Saved."
    assert projects(live) == [["p0"], ["p1"], ["p2"], ["newer"]]


def test_a_channel_that_was_removed_is_not_added_by_its_open_form(live, page):
    """This holds where its address was entered again; a form does not overwrite a channel of another name either."""
    held = HOOK | {"name": "team", "format": "text", "picture": "on", "actions": "off"}
    fields = [held[name] for name in CHANNEL_FIELDS]
    routes = [{"channels": ["hook"]}]
    save(live, 1, {"channels": {"hook": HOOK, "team": HOOK}, "routes": routes})
    said, *_ = page.call("act", [1], [], [], 2, by=channel_ids.button("remove", "team"))
    assert said.startswith("Saved.")
    answer = page.call("save_channel", 1, 3, "team", *fields)
    assert answer[0].startswith("Not saved.")
    assert "is not there any more: press Empty the form to add it as a new one" in answer
    assert page.call("save_channel", 2, 3, "hook", "hook", *fields[1:])[0].startswith("Saved.")
    assert ask(live, "GET", "/notifications/settings")["version"] == 3  # what changes nothing is no version
    assert page.call("save_channel", 3, 3, None, *fields)[0].startswith("Saved.")
    answer = page.call("save_channel", 4, 4, "hook", *fields)
    assert "is there already: press Edit beside it to change it" in answer
    assert ask(live, "GET", "/notifications/settings")["version"] == 4


def test_limits_that_nobody_touched_are_not_saved(live, page):
    """Somebody else has changed a limit since the form was drawn; a second author of that limit gets a message."""
    drawn = LIMITS | {"run_days": 1}
    ask(live, "PUT", "/retention", {"limits": {"run_days": 1}, "seen": {"run_days": None}})
    ask(live, "PUT", "/retention", {"limits": {"run_days": None}, "seen": {"run_days": 1}})
    values = drawn | {"response_days": 30}
    is_asked, question, asked, *_ = page.call("ask", 1, drawn, *values.values())
    assert is_asked
    assert "responses of a run that sends nothing: for good, now 30 days" in question
    assert asked == {"limits": {"response_days": 30}, "seen": {"response_days": None}}
    assert page.call("save", 1, asked)[0].startswith("Saved.")
    limits = {limit["name"]: limit["value"] for limit in ask(live, "GET", "/retention")["items"]}
    assert (limits["run_days"], limits["response_days"]) == (None, 30)
    is_asked, _, asked, said, form, *_ = page.call("ask", 1, drawn, *(drawn | {"run_days": 7}).values())
    assert (is_asked, asked, "enter your change again" in said) == (False, None, True)
    assert retention_ids.DRAWN in str(form)
    assert "open=True" in str(form)


@pytest.mark.parametrize("bad", [5.5, ["x"], {"a": ["x"]}])
def test_what_no_page_sends_changes_nothing(page, bad):
    """It ends no callback either."""
    calls = [
        page.call("save_route", 1, 1, bad, *[None] * len(ROUTE_FIELDS)),
        page.call("save_channel", 1, 1, bad, *[None] * len(CHANNEL_FIELDS)),
        page.call("fill_route", [1], None, 1, by=channel_ids.route_button("edit", bad)),
        page.call("fill_channel", [1], None, by=channel_ids.button("edit", bad)),
        page.call("act", [], [1], [], 1, by=channel_ids.route_button("up", bad)),
        page.call("act", [], [1], [], 1, by=channel_ids.route_button(bad, 0)),
        page.call("act", [], [], [1], 1, by=channel_ids.version_restore(bad)),
        page.call("ask", 1, bad, *LIMITS.values()),
        page.call("save", 1, bad),
        page.call("save", 1, {"limits": bad, "seen": {}}),
    ]
    assert all(value is no_update for answer in calls for value in answer)


def test_a_text_that_is_no_number_is_refused_at_its_field(live, page):
    """It is not taken for an empty field, which would save the default or no limit."""
    limits = LIMITS | {"run_days": "1e"}
    is_asked, _, asked, said, _, *problems = page.call("ask", 1, LIMITS, *limits.values())
    assert (is_asked, asked, said) == (False, None, "Not saved. ")
    assert [problem.partition(", got ")[2] for problem in problems] == [""] * 5 + ["'1e'; correct it"]
    numbers = dict.fromkeys(DELIVERY_FIELDS, "") | {"messages_per_hour": "-"}
    said, *shown = page.call("save_delivery", 1, 1, *numbers.values())
    assert (said, shown.count("")) == ("Not saved. ", len(DELIVERY_FIELDS) - 1)
    assert "must be a number such as 3, 0.5 or 1e-3, got '-'; correct it" in shown
    route = dict.fromkeys(ROUTE_FIELDS, "") | {"after_minutes": "five"}
    said, *shown = page.call("save_route", 1, 1, None, *route.values())
    assert (said, shown.count("")) == ("Not saved. ", len(ROUTE_FIELDS) - 1)
    assert ask(live, "GET", "/notifications/settings")["version"] == 1


def test_a_number_that_is_no_limit_is_refused_at_its_field(page):
    """Each of several limits has the collector's own reason."""
    limits = LIMITS | {"record_steps": "-3", "run_days": "-1", "step_days": "5"}
    is_asked, _, asked, said, _, *problems = page.call("ask", 1, LIMITS, *limits.values())
    assert (is_asked, asked, said) == (False, None, "Not saved. ")
    found = {name: problem for name, problem in zip(LIMIT_FIELDS, problems, strict=True) if problem}
    assert set(found) == {"record_steps", "run_days"}
    assert all(
        problem.startswith(("Input should be greater than", "must be more than 0 days")) for problem in found.values()
    )
    assert ";" not in "".join(found.values())


def test_settings_that_the_collector_has_not_confirmed_are_not_called_unsaved(live, page):
    """They may be in force."""
    failing = Failing(live)
    failing.method, failing.status = "PUT", 503
    failing.answer = {"error": "OutcomeUnknown", "detail": "the database has not confirmed this"}
    numbers = dict.fromkeys(DELIVERY_FIELDS, "") | {"match": "first"}
    said = page.call("save_delivery", 1, 1, *numbers.values())[0]
    assert said.startswith("It is not known whether this was done: look before you repeat it. The collector answered")


def test_numbers_of_text_fields_are_saved_as_numbers(live, page):
    """The fields hold the texts that people have typed."""
    numbers = dict.fromkeys(DELIVERY_FIELDS, "") | {"match": "first", "messages_per_hour": " 7 ", "wait_seconds": ".5"}
    page.call("save_delivery", 1, 1, *numbers.values())
    assert page.set[channel_ids.STATE]["children"].startswith("The delivery is saved.")
    saved = ask(live, "GET", "/notifications/settings")
    assert (saved["limits"]["messages_per_hour"], saved["grouping"]["wait_seconds"]) == (7, 0.5)
    asked = page.call("ask", 1, LIMITS, *(LIMITS | {"record_steps": "1e3"}).values())[2]
    assert asked["limits"] == {"record_steps": 1000}
