"""The forms of channels and routes: the values that they send and hold, and the places of their errors."""

import copy

import pytest

from dashboard.components.settings.channel_form_values import (
    CHANNEL_FIELDS,
    DELIVERY_FIELDS,
    ROUTE_FIELDS,
    channel_fields,
    delivery_fields,
    fields_of_kind,
    move_route_up,
    problems_by_field,
    route_fields,
    with_channel,
    with_delivery,
    with_route,
    without_channel,
    without_route,
)
from dashboard.components.settings.channel_forms import channel_form, channels_in_file
from dashboard.components.settings.tables import describe_route
from dashboard.ids.settings import forms as form_ids
from monitor_server.notifications.configuration.editing import with_kept_secrets
from monitor_server.notifications.configuration.loading import read_document

LEVELS = [("hook", 15), ("team", 60)]
UNRESOLVED = ", but not when they are resolved"
FILE = read_document({
    "version": 1,
    "channels": {
        "team": {"type": "apprise", "url": "slack://a/b/c", "format": "markdown", "picture": False},
        "hook": {"type": "webhook", "url": "https://x.org/in", "secret": "0123456789abcdef", "actions": True},
    },
    "routes": [
        {"channels": ["team", "hook"], "projects": ["a", "b"], "kinds": ["k"], "severity": "critical",
         "escalate": [{"after_minutes": 15, "channels": ["hook"]}, {"after_minutes": 60, "channels": ["team"]}]},
        {"channels": ["hook"], "days": ["mon", "sun"], "hours": "08:00-18:00", "time_zone": "Europe/Berlin",
         "resolved": False},
        {"channels": ["team"]},
    ],
    "match": "all",
    "limits": {"messages_per_hour": 5},
    "fallback": {"channel": "hook", "after_minutes": 7},
})  # fmt: skip


@pytest.fixture
def settings():
    """The settings of the file as the API answers them."""
    answer = FILE.model_dump(mode="json") | {"version": 3, "source": "saved", "problem": ""}
    for channel in answer["channels"].values():
        del channel["url"]
        channel.pop("secret", None)
        channel |= {"address": "shown", "format": channel.get("format"), "picture": channel.get("picture")}
    return answer


def read(sent):
    """Read the values of a form as the collector does, with the secrets that it keeps."""
    return read_document({"version": 1} | with_kept_secrets(sent, FILE))


def test_forms_that_are_filled_and_saved_change_nothing(settings):
    """This covers every channel, every route and the delivery; fields that no form shows stay unchanged."""
    before = copy.deepcopy(settings)
    for name in settings["channels"]:
        fields = channel_fields(settings, name)
        assert fields.keys() == set(CHANNEL_FIELDS)
        assert read(with_channel(settings, fields)) == FILE
    for number in range(3):
        fields = route_fields(settings, number)
        assert fields.keys() == set(ROUTE_FIELDS)
        assert read(with_route(settings, number, fields)) == FILE
    fields = delivery_fields(settings)
    assert fields.keys() == set(DELIVERY_FIELDS)
    assert read(with_delivery(settings, fields)) == FILE
    assert settings == before


def test_a_form_of_a_channel_that_is_opened_has_the_fields_of_its_kind():
    """The fields are those of a webhook, the first kind, so that nothing below moves when the page is there."""
    walk = channel_form(is_open=True)._traverse()  # noqa: SLF001 - Dash has no public one
    parts = {part.id: part.hidden for part in walk if hasattr(part, "hidden")}
    hidden = {name for name in CHANNEL_FIELDS if parts[form_ids.part("channel", name)]}
    assert hidden == {"format", "picture"} == {name for name, shown in fields_of_kind("webhook").items() if not shown}


def test_the_first_channel_is_sent_what_is_a_warning_or_worse(settings):
    """Without a route nobody would be notified. Fields of the other kind are not sent."""
    fields = {"name": " new ", "type": "webhook", "url": "https://y.org", "secret": "s" * 16, "format": "text"}
    sent = with_channel(settings | {"channels": {}, "routes": [], "fallback": None}, fields)
    assert sent["routes"] == [{"channels": ["new"], "severity": "warning"}]
    assert sent["channels"] == {
        "new": {"type": "webhook", "actions": False, "url": "https://y.org", "secret": "s" * 16}
    }


def test_a_channel_is_removed_with_all_that_leads_to_it_alone(settings):
    """Routes without a channel go, levels of an escalation too, and the fallback."""
    left = read(without_channel(settings, "hook"))
    assert [(route.channels, [level.channels for level in route.escalate]) for route in left.routes] == [
        (["team"], [["team"]]), (["team"], []),
    ]  # fmt: skip
    assert left.fallback is None
    both = without_channel(without_channel(settings, "hook") | {"fallback": None}, "team")
    assert (both["channels"], both["routes"]) == ({}, [])


def test_routes_are_added_moved_and_removed(settings):
    """The order counts; a place that there is not changes nothing."""
    added = with_route(
        settings, None, {"channels": ["team"], "projects": " x ,, y", "after_minutes": 5, "escalate": []}
    )
    assert (added["routes"][3]["projects"], added["routes"][3]["severity"]) == (["x", "y"], "warning")
    # the collector names the missing part
    assert added["routes"][3]["escalate"] == [{"after_minutes": 5, "channels": []}]
    assert [route["channels"] for route in move_route_up(settings, 2)["routes"]] == [
        ["team", "hook"],
        ["team"],
        ["hook"],
    ]
    assert move_route_up(settings, 0)["routes"] == move_route_up(settings, 9)["routes"]
    assert [route["channels"] for route in without_route(settings, 0)["routes"]] == [["hook"], ["team"]]


def test_a_project_whose_name_has_a_comma_keeps_it_when_its_route_is_edited(settings):
    """Otherwise the route would be of two other projects, and nobody be told of this one."""
    projects = ["search, v2", "a", '"b"']
    edited = with_route(settings, 0, route_fields(settings, 0) | {"projects": 'a, "search, v2"'})
    assert edited["routes"][0]["projects"] == ["a", "search, v2"]
    held = settings | {"routes": [settings["routes"][0] | {"projects": projects}]}
    assert with_route(held, 0, route_fields(held, 0))["routes"][0]["projects"] == projects


def test_what_is_wrong_stands_at_its_field():
    """The message omits its place; messages without a field in the form are returned separately."""
    detail = (
        "The collector answered 422: channels.team.url must be set; routes[0].hours must look like it; "
        "routes[0].channels[1] must be the name of a channel; routes[0].escalate[0].channels must hold; "
        "limits.messages_per_hour must hold: more; odd"
    )
    found, left = problems_by_field(detail, CHANNEL_FIELDS)
    assert found["url"] == "must be set"
    assert "must look like it" in left
    found, left = problems_by_field(detail, ROUTE_FIELDS)
    assert (found["hours"], found["channels"]) == ("must look like it", "must be the name of a channel")
    assert (found["escalate"], "channels.team.url" in left) == ("must hold", True)
    found, left = problems_by_field(detail, DELIVERY_FIELDS)
    assert (found["messages_per_hour"], left.rpartition("; ")[2]) == ("must hold: more", "odd")
    assert problems_by_field("channels. must have a name", CHANNEL_FIELDS)[0]["name"] == "must have a name"


@pytest.mark.parametrize("bad", [None, 5, ["x"], {"a": 1}, "", True])
def test_values_that_no_form_sends_end_no_callback(settings, bad):
    """The collector refuses these values, or they are empty."""
    for change, fields in ((with_channel, CHANNEL_FIELDS), (with_delivery, DELIVERY_FIELDS)):
        assert change(settings, dict.fromkeys(fields, bad))["routes"]
    assert len(with_route(settings, None, dict.fromkeys(ROUTE_FIELDS, bad))["routes"]) == 4


def test_a_route_is_stated_in_words(settings):
    """The sentence contains the whole route, so that nobody has to open the form to know it."""
    assert [describe_route(route) for route in settings["routes"]] == [
        "critical, of a, b, of the kinds k"
        + "".join(f", and to {name} if nobody acknowledges within {minutes} min" for name, minutes in LEVELS),
        "warning and more severe, of every project, on mon, sun at 08:00-18:00 (Europe/Berlin)" + UNRESOLVED,
        "warning and more severe, of every project",
    ]


def test_a_file_that_was_changed_and_cannot_be_used_is_named_with_its_problem(settings, texts):
    """The page would say that the change is in force."""
    shown = channels_in_file(settings | {"source": "file", "problem": "routes[0] names no channel"}, [])
    assert any("routes[0] names no channel" in text for text in texts(shown))
    assert not any("cannot be used" in text for text in texts(channels_in_file(settings | {"source": "file"}, [])))
