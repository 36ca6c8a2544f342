"""The rows of a table of runs in groups: heads, and runs below them, alike on both databases and wherever it is cut."""

from typing import get_args
from urllib.parse import urlencode

import pytest

from monitor_server.api.run_parameters import GroupedBy
from tests.live import eventually

# name, reward, labels
RUNS = (
    ("grpo-seed1", 0.25, {"tags": ["kept", "owner:ana"]}),
    ("grpo-seed2", 0.75, {"tags": ["owner:bo"]}),
    ("grpo-seed3", 0.5, {"tags": ["kept", "owner:ana"]}),
    ("ppo_100%", 0.125, {}),
    ("dpo", 0.375, {"archived": True}),
)
PROJECT = "rows"


@pytest.fixture
def fleet(collector, sent_once):
    """A collector with five runs, which are sent once to each collector."""
    sent_once(collector, send_fleet)
    return collector


def send_fleet(collector):
    """Send the five runs with their labels, and wait until they are projected."""
    for name, reward, labels in RUNS:
        run = collector.run(run=name, project=PROJECT, records=[{"step": 0, "scalars": {"reward/mean": reward}}])
        answer = collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{run}", json=labels)
        assert answer.status == 200, answer.data
        eventually(lambda run=run: collector.get(f"/runs/{run}")["last_step"] == 0)


def row_text(item):
    """Return a row as text: the head of a group in brackets, or the name of a run."""
    if item["run"]:
        assert item["group"] is None
        return item["run"]["name"]
    return f"[{item['group']['name']} {item['group']['runs']}]"


def part(fleet, **query):
    return fleet.get(f"/runs/rows?{urlencode({'project': PROJECT} | query, doseq=True)}")


def test_each_group_has_a_head_above_its_runs(fleet):
    """The groups are in the order of the groups, and their runs in the order that is asked for."""
    answer = part(fleet, group_by="setting", sort="reward:desc")
    assert [row_text(item) for item in answer["items"]] == [
        "[dpo 1]",
        "dpo",
        "[ppo_100% 1]",
        "ppo_100%",
        "[grpo 3]",
        "grpo-seed2",
        "grpo-seed3",
        "grpo-seed1",
    ]
    assert (answer["rows"], answer["total"], answer["next"]) == (8, 5, None)


def test_a_closed_group_is_a_head_alone(fleet):
    """It still counts its runs; the empty name is the group of runs without a value."""
    answer = part(fleet, group_by="owner", sort="name", closed=["", "bo"])
    assert [row_text(item) for item in answer["items"]] == ["[None 2]", "[ana 2]", "grpo-seed1", "grpo-seed3", "[bo 1]"]
    assert (answer["rows"], answer["total"]) == (5, 5)


def test_filters_leave_runs_and_groups_out(fleet):
    """A group counts those that are left."""
    answer = part(fleet, group_by="setting", archived="false", where="reward:above:0.3", sort="reward")
    assert [row_text(item) for item in answer["items"]] == ["[grpo 2]", "grpo-seed3", "grpo-seed2"]
    assert (answer["rows"], answer["total"]) == (3, 2)
    none = part(fleet, group_by="setting", text="nothing")
    assert (none["items"], none["rows"], none["total"]) == ([], 0, 0)


@pytest.mark.parametrize("by", get_args(GroupedBy))
def test_the_rows_are_those_of_the_groups_and_of_the_list(fleet, by):
    """A head is the item of `GET /runs/groups` and a run that of `GET /runs`, for every grouping."""
    groups = fleet.get("/runs/groups", project=PROJECT, by=by)["items"]
    listed = fleet.get("/runs", project=PROJECT, group_by=by, sort="name")["items"]
    rows = part(fleet, group_by=by, sort="name")["items"]
    assert [row["group"] for row in rows if row["group"]] == groups
    assert [row["run"] for row in rows if row["run"]] == listed
    heads = [place for place, row in enumerate(rows) if row["group"]]
    assert heads == [sum(group["runs"] + 1 for group in groups[:place]) for place in range(len(groups))]


@pytest.mark.parametrize("closed", [[], ["ana"], ["", "bo"], ["ana", "bo", ""]], ids=str)
def test_parts_join_to_the_whole_wherever_they_are_cut(fleet, closed):
    """They are cut by an offset or by a cursor; behind the end there are no rows, and the counts are still stated."""
    asked = {"group_by": "owner", "sort": "name", "closed": closed}
    whole = part(fleet, **asked)
    for size in (1, 3):
        parts = [part(fleet, offset=first, limit=size, **asked) for first in range(0, whole["rows"], size)]
        assert [row for one in parts for row in one["items"]] == whole["items"]
        assert {one["rows"] for one in parts} == {whole["rows"]}
        read, cursor = [], {}
        while True:
            one = part(fleet, limit=size, **cursor, **asked)
            read += one["items"]
            if one["next"] is None:
                break
            cursor = {"cursor": one["next"]}
        assert read == whole["items"]
    for place in ({"offset": 99}, {"cursor": "9" * 18}):
        behind = part(fleet, **place, **asked)
        assert (behind["items"], behind["rows"], behind["total"], behind["next"]) == ([], whole["rows"], 5, None)


def test_a_project_that_a_key_does_not_reach_has_no_rows(fleet):
    """Unknown projects are listed like those."""
    answer = fleet.get("/runs/rows", project="elsewhere", group_by="phase")
    assert answer == {"items": [], "next": None, "rows": 0, "total": 0}


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("", "query.group_by"),
        ("?group_by=colour", "query.group_by"),
        ("?group_by=tag&offset=5&cursor=7", "query.offset: cannot be given with a cursor"),
        ("?group_by=tag" + "&closed=a" * 101, "query.closed"),
        (f"?group_by=tag&closed={'a' * 201}", "query.closed.0"),
    ],
    ids=["nothing", "colour", "offset", "many", "long"],
)
def test_what_cannot_be_grouped_is_refused_in_words(collector, query, refused):
    """The message names the parameter."""
    answer = collector.pool.request("GET", f"{collector.url}/api/v1/runs/rows{query}")
    assert answer.status == 422
    assert refused in answer.json()["detail"]
