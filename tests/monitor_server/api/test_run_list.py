"""Lists of runs: sorted, filtered, grouped and paged by the store, alike on both databases."""

import json
from typing import get_args

import pytest

from monitor_server.api.run_parameters import GroupedBy
from monitor_server.store.repositories.run_order import SORTED_BY
from tests.live import eventually

# name, rewards at the steps 0, 1, ..., labels
RUNS = (
    ("grpo-seed1", [0.25, 0.5], {"tags": ["kept", "owner:ana"]}),
    ("grpo-seed2", [0.75], {"tags": ["owner:bo"], "title": "Ärger"}),
    ("ppo_100%", [0.125, "NaN"], {}),
    ("without", [], {"archived": True}),
)


@pytest.fixture(scope="module")
def project():
    return "listed"


@pytest.fixture
def fleet(collector, project, sent_once):
    """Four runs, whose ids by name are returned; they are sent once to each collector."""
    return sent_once(collector, lambda live: send_fleet(live, project))


def send_fleet(collector, project):
    """Send the four runs with their labels, wait until they are projected, and return their ids by name."""
    ids = {}
    for name, rewards, labels in RUNS:
        records = [{"step": step, "scalars": {"reward/mean": reward}} for step, reward in enumerate(rewards)]
        ids[name] = collector.run(run=name, project=project, records=records, config={})
        if labels:
            answer = collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{ids[name]}", json=labels)
            assert answer.status == 200, answer.data
    wanted = {ids[name]: len(rewards) - 1 for name, rewards, _ in RUNS if rewards}
    eventually(lambda: all(collector.get(f"/runs/{run}")["last_step"] == step for run, step in wanted.items()))
    return ids


def names(collector, project, **query):
    """Return the names of the runs of an answer."""
    return [run["name"] for run in collector.get("/runs", project=project, **query)["items"]]


def refusal(collector, **query):
    """Return the message of a refused request."""
    answer = collector.pool.request("GET", f"{collector.url}/api/v1/runs", fields=query)
    assert answer.status == 422, answer.data
    return answer.json()["detail"]


@pytest.mark.usefixtures("fleet")
def test_runs_are_sorted_by_a_number_and_those_without_one_are_last(collector, project):
    """In both directions; a reward that is not finite is not the newest one."""
    assert names(collector, project, sort="reward") == ["ppo_100%", "grpo-seed1", "grpo-seed2", "without"]
    assert names(collector, project, sort="reward:desc") == ["grpo-seed2", "grpo-seed1", "ppo_100%", "without"]
    assert names(collector, project, sort="setting,reward:desc")[:2] == ["grpo-seed2", "grpo-seed1"]
    (first, *_) = collector.get("/runs", project=project, sort="reward")["items"]
    assert (first["reward"], first["reward_change"], first["setting"]) == (0.125, 0.0, "ppo_100%")


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("column", SORTED_BY)
def test_every_column_can_be_sorted_by(collector, project, column):
    """Each run is listed once, whichever way."""
    for direction in ("asc", "desc"):
        assert sorted(names(collector, project, sort=f"{column}:{direction}")) == sorted(name for name, *_ in RUNS)


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"owner": "ana"}, ["grpo-seed1"]),
        ({"tag": "kept"}, ["grpo-seed1"]),
        ({"tag": "ept"}, []),
        ({"tag": "KEPT"}, []),
        ({"text": "ÄRGER"}, ["grpo-seed2"]),
        ({"text": "grpo kept"}, ["grpo-seed1"]),
        ({"text": "100%"}, ["ppo_100%"]),
        ({"text": "o_1"}, ["ppo_100%"]),
        ({"text": "g%1"}, []),
        ({"archived": "true"}, ["without"]),
        ({"where": "reward:above:0.5"}, ["grpo-seed2"]),
        ({"where": "reward:below:5e-1"}, ["ppo_100%"]),
        ({"where": "run:contains:GRPO"}, ["grpo-seed1"]),
        ({"where": "last_step:above:0", "archived": "false"}, ["grpo-seed1", "ppo_100%"]),
        ({"status": "finished"}, []),
        ({"phase": "collapsed"}, ["ppo_100%"]),
    ],
    ids=str,
)
def test_runs_are_filtered(collector, project, query, found):
    """Filters are exact values, words in any case, and the values of a column; `total` counts the matches."""
    answer = collector.get("/runs", project=project, **query)
    assert sorted(run["name"] for run in answer["items"]) == found
    assert answer["total"] == len(found)


def test_a_part_begins_anywhere_and_a_cursor_goes_on(collector, project, fleet):
    """This holds for any order; a list with the newest first continues at its place although a run was added."""
    assert names(collector, project, sort="name", offset=2, limit=1) == ["ppo_100%"]
    assert names(collector, project, sort="name", offset=9) == []
    for query in ({}, {"sort": "name"}, {"group_by": "owner"}):
        whole = names(collector, project, **query)
        part = collector.get("/runs", project=project, limit=3, **query)
        assert part["total"] == len(fleet)
        rest = collector.get("/runs", project=project, limit=3, cursor=part["next"], **query)
        assert [run["name"] for run in (*part["items"], *rest["items"])] == whole
        assert (rest["next"], rest["total"]) == (None, None)


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("by", get_args(GroupedBy))
def test_groups_count_their_runs_and_lists_keep_them_together(collector, project, by):
    """The groups of a list come in the order of the groups."""
    groups = collector.get("/runs/groups", project=project, by=by)["items"]
    assert sum(group["runs"] for group in groups) == len(RUNS)
    newest = max(run["last_seen"] for run in collector.get("/runs", project=project)["items"])
    assert max(group["last_seen"] for group in groups) == newest
    listed = collector.get("/runs", project=project, group_by=by, sort="name")["items"]
    value = {"tag": lambda run: next(iter(run["tags"]), None)}.get(by, lambda run: run[by])
    assert [value(run) for run in listed] == [group["name"] for group in groups for _ in range(group["runs"])]


@pytest.mark.usefixtures("fleet")
def test_groups_are_filtered_and_go_on_by_a_cursor(collector, project):
    """The cursor works like that of a list."""
    asked = {"project": project, "by": "setting", "archived": "false"}
    whole = collector.get("/runs/groups", **asked)["items"]
    assert {group["name"]: group["runs"] for group in whole} == {"grpo": 2, "ppo_100%": 1}
    part = collector.get("/runs/groups", limit=1, **asked)
    assert [*part["items"], *collector.get("/runs/groups", cursor=part["next"], **asked)["items"]] == whole


def test_the_most_urgent_run_is_first(start_collector, scripted, database_url, clock):
    """Critical alerts, then warnings, then the newest run; ended runs are last, whatever alerts they have."""
    live = start_collector(database_url=database_url, engine=scripted, clock=clock)

    def send(name, end=None, **signals):
        records = [{"step": 0, "scalars": {"reward/mean": 0.5, **signals}}]
        run = live.run(run=name, records=records, **({} if end is None else {"end": end}))
        eventually(lambda: live.get(f"/runs/{run}")["last_step"] == 0)
        clock.now += 1

    send("ended", "finished", page=1.0)
    send("paged", page=1.0, warn=0.0)
    send("warned", warn=1.0)
    send("calm", phase=1.0)
    send("failing", phase=4.0)
    send("newer")
    order = [run["name"] for run in live.get("/runs", sort="urgency")["items"]]
    assert order == ["paged", "warned", "failing", "newer", "calm", "ended"]
    assert [run["name"] for run in live.get("/runs", sort="urgency:desc")["items"]] == order[::-1]
    (paged,) = live.get("/runs", text="paged")["items"]
    assert paged["alert_counts"] == {"critical": 1, "warning": 0, "info": 0}
    assert paged["leading_alert"]["kind"] == "scripted"
    assert [run["name"] for run in live.get("/runs", where="leading_alert:contains:SCRIPT", sort="name")["items"]] == [
        "ended",
        "paged",
        "warned",
    ]
    groups = {group["name"]: group for group in live.get("/runs/groups", by="status")["items"]}
    assert groups["running"]["alerts"] == {"critical": 1, "warning": 1, "info": 0}
    assert (groups["running"]["runs"], groups["running"]["phase"]) == (5, "acceleration")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"sort": "nothing"}, "query.sort: Value error, must be columns"),
        ({"sort": "reward:up"}, "got 'reward:up'"),
        ({"sort": "name,run,reward,phase,status"}, "at most 4 columns"),
        ({"where": "reward:contains:1"}, "query.where.0: Value error, must be COLUMN:contains:TEXT"),
        ({"where": "reward:above:nan"}, "must be COLUMN"),
        ({"where": "reward:above:1e999"}, "must be COLUMN"),
        ({"where": "run:contains:"}, "must be COLUMN"),
        ({"text": " ".join("abcdefghijk")}, "at most 10 words, got 11"),
        ({"offset": "-1"}, "query.offset"),
        ({"offset": "5", "cursor": "7"}, "query.offset: cannot be given with a cursor"),
        ({"group_by": "colour"}, "query.group_by"),
        ({"status": "asleep"}, "query.status.0"),
    ],
    ids=str,
)
def test_what_cannot_be_listed_is_refused_in_words(collector, query, message):
    """The message names the parameter, the condition and the given value."""
    assert message in refusal(collector, **query)


def test_a_project_that_a_key_does_not_reach_has_no_runs(collector, fleet):
    """Unknown projects are listed like those, and their groups too."""
    assert fleet
    assert collector.get("/runs", project="elsewhere")["total"] == 0
    assert json.dumps(collector.get("/runs/groups", project="elsewhere", by="phase")["items"]) == "[]"


def test_a_tag_is_found_as_a_whole_and_letters_of_every_alphabet_without_case(collector):
    """On both databases alike: no part of a tag, no delimiter between two, and not the letters of ASCII alone."""
    run = collector.run(run="tagged", project="tags", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    labels = {"title": "Ärger", "tags": ['a"x', "y", "z"]}
    answer = collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{run}", json=labels)
    assert answer.status == 200, answer.data
    for tag in labels["tags"]:
        assert names(collector, "tags", tag=tag) == ["tagged"]
    for tag in ("x", "a", ", ", '"'):
        assert names(collector, "tags", tag=tag) == []
    assert names(collector, "tags", where="run:contains:äRGER") == ["tagged"]


def test_a_record_changes_neither_the_order_of_groups_nor_of_equally_urgent_runs(collector):
    """Otherwise a list that is read in parts would lose some of them and repeat others."""
    for name in ("a", "b", "c"):
        collector.run(run=name, project=f"still-{name}", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    asked = {"text": "still", "sort": "urgency"}
    groups = [group["name"] for group in collector.get("/runs/groups", by="project", text="still")["items"]]
    listed = [run["name"] for run in collector.get("/runs", **asked)["items"]]
    collector.run(run="a", project="still-a", records=[{"step": 1, "scalars": {"reward/mean": 0.5}}])
    assert [group["name"] for group in collector.get("/runs/groups", by="project", text="still")["items"]] == groups
    assert [run["name"] for run in collector.get("/runs", **asked)["items"]] == listed == ["c", "b", "a"]


@pytest.mark.parametrize("path", ["/runs", "/alerts", "/views"])
def test_a_cursor_that_no_row_has_reveals_nothing(collector, path):
    """PostgreSQL compares no row's number with one of 56 bits; the list goes on where none is that high."""
    for cursor in ("2147483648", "999999999999999999"):
        assert collector.pool.request("GET", f"{collector.url}/api/v1{path}?cursor={cursor}").status == 200
