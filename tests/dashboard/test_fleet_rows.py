"""The rows of the fleet's table, from hand-written answers of the API."""

import math

import pytest

from dashboard.collector_client.answers import printable_tree
from dashboard.components.fleet.filters import FleetCounts, fleet_filters, fleet_summary
from dashboard.components.fleet.grid_request import Controls, build_run_query, left_out, limit_closed_groups, sort_of
from dashboard.components.fleet.rows import build_grouped_row, fleet_row
from dashboard.components.values import csv_cell


def run(name, **given):
    return {"id": name, "project": "p", "name": name, "status": "running", "phase": "healthy", "last_step": 3} | given


def group(name, runs, **alerts):
    return {"name": name, "runs": runs, "phase": "decay", "alerts": {"critical": 0, "warning": 0, "info": 0} | alerts}


def controls(**given):
    return Controls(**{"text": "", "project": None, "state": "all", "group": None, "archived": []} | given)


def test_a_row_states_how_long_a_phase_lasts():
    """Steps 90 to 99 at 6 s each are a minute."""
    row = fleet_row(run("a", last_step=99, phase_from_step=90, step_seconds=6.0))
    assert (row["phase_steps"], row["phase_seconds"]) == (10, 60)


def test_a_row_has_the_title_and_the_gaps_of_its_run():
    """People's title stands in place of the trainer's name; JSON has no NaN."""
    line = {"signal": "reward/mean", "values": [0.123456, math.nan, 0.5]}
    row = fleet_row(run("a", title="The good one", sparkline=line))
    assert (row["run"], row["name"], row["sparkline"]) == ("The good one", "a", [0.1235, None, 0.5])


def test_the_summary_counts_runs_by_state_and_alerts_by_severity(texts):
    """Stalled and lost runs are silent; a run that is archived is not among them."""
    by_status = [group("lost", 2, critical=1), group("stalled", 1), group("running", 1200, critical=2, info=1)]
    counts = FleetCounts(by_status, [group("p", 1300)], 1300)
    assert texts(fleet_summary(counts)) == ["1,203 runs", "1,200 running", "3 silent", "3 critical", "1 info"]


def test_one_run_needs_no_filters():
    """There is nothing to choose from."""
    assert fleet_filters(FleetCounts([], [group("p", 1)], 1)).hidden
    assert not fleet_filters(FleetCounts([], [group("p", 1), group("q", 1)], 2)).hidden


def test_the_menu_of_projects_has_the_one_that_is_chosen():
    """The chosen project is listed also where it is not among those that are read."""
    counts = FleetCounts([], [group("q", 1), group("p", 1)], 2)
    assert (counts.projects(), counts.projects("other"), counts.projects("p")) == (
        ["p", "q"],
        ["other", "p", "q"],
        ["p", "q"],
    )


def test_a_group_without_a_name_is_named():
    """It can be closed like the others."""
    head = {"group": group(None, 2, warning=1), "run": None}
    row = build_grouped_row(head, "owner", closed=[""])
    assert (row["group"], row["key"], row["is_open"], row["counts"]["warning"]) == ("no owner", "", False, 1)
    assert build_grouped_row(head, "owner", closed=["other"])["is_open"]


def test_as_many_groups_are_closed_as_the_collector_takes():
    """The newest groups are closed, limited by their number and by the length of their names in an address."""
    assert limit_closed_groups([str(place) for place in range(300)]) == [str(place) for place in range(299, 199, -1)]
    assert limit_closed_groups(["a" * 200, "", "b" * 201, 5, None]) == ["", "a" * 200]
    long = [f"{'🔥' * 198}{place:02}" for place in range(90)]
    sent = limit_closed_groups(long)
    assert sent == long[: -len(sent) - 1 : -1]
    assert 10 < len(sent) < 20


def test_a_group_whose_name_has_a_character_that_is_shown_as_an_escape_is_closed():
    """The browser knows only the shown text, so both texts are sent."""
    shown = printable_tree("\U0001f469\u200b\U0001f4bb")
    assert shown == "\U0001f469\\u200b\U0001f4bb"
    assert limit_closed_groups([shown]) == [shown, "\U0001f469\u200b\U0001f4bb"]
    assert limit_closed_groups([r"a\x00b", r"C:\ud800"]) == [r"C:\ud800", r"a\x00b"]


def test_the_order_is_that_of_the_headings_by_the_names_of_the_api():
    """The most urgent run is first where no heading was clicked; the collector takes four columns."""
    assert sort_of({}) == "urgency"
    asked = [{"colId": name, "sort": "desc"} for name in ("step", "run", "lead", "change", "phase")]
    assert sort_of({"sortModel": asked}) == "last_step:desc,run:desc,leading_alert:desc,reward_change:desc"


def test_controls_and_headings_are_filters_of_the_api():
    """Filters that are not set are not sent; words beyond the limit of the collector are left out."""
    assert build_run_query({}, controls()) == {"archived": "false"}
    asked = controls(text=" ".join("abcdefghijklm"), project="p", state="silent", archived=["archived"])
    model = {
        "lead": {"filterType": "text", "type": "contains", "filter": "می\u200cخواهم"},
        "reward": {"filterType": "number", "type": "inRange", "filter": 1e-7, "filterTo": 2},
        "step": {"filterType": "number", "type": "greaterThan", "filter": 5},
        "name": {"operator": "OR", "conditions": []},
    }
    assert build_run_query({"filterModel": model}, asked) == {
        "text": "a b c d e f g h i j",
        "project": "p",
        "status": ["stalled", "lost"],
        "where": [
            "leading_alert:contains:می\u200cخواهم",
            "reward:above:1e-07",
            "reward:below:2",
            "last_step:above:5",
        ],
    }


def test_what_the_collector_refuses_to_take_is_said():
    """Words, conditions and sorted columns beyond its limits; nothing where all is asked for."""
    assert left_out({}, controls(text="a b")) == []
    model = {f"c{place}": {"type": "contains", "filter": "x"} for place in range(7)}
    assert left_out({"filterModel": model | {"reward": {"type": "lessThan", "filter": 1}}}, controls()) == []
    between = {"reward": {"type": "inRange", "filter": 1, "filterTo": 2}}
    sorts = [{"colId": name, "sort": "asc"} for name in ("run", "step", "phase", "status", "reward")]
    assert left_out({"filterModel": model | between, "sortModel": sorts}, controls(text="a " * 11)) == [
        "Only the first 10 words and 200 letters are used for the search",
        "Only the first 8 conditions of the headings are applied",
        "Only the first 4 columns are used for sorting",
    ]


@pytest.mark.parametrize(
    "model",
    [
        {"type": "greaterThan", "filter": None},
        {"type": "lessThan", "filter": "x"},
        {"type": "inRange", "filter": 1},
        {"type": "contains", "filter": "\ud800"},
        {"type": "greaterThan", "filter": float("nan")},
        "x",
        [],
    ],
)
def test_a_filter_of_a_hostile_address_demands_nothing(model):
    """An address may hold anything, and a reader must see the table."""
    assert build_run_query({"filterModel": {"reward": model}}, controls()) == {"archived": "false"}


def test_numbers_beyond_those_of_the_api_and_cells_of_several_values_are_asked_for_as_it_reads_them():
    """The collector reads two digits of an exponent, and sorts by single values."""
    model = {"reward": {"type": "inRange", "filter": 1e-200, "filterTo": 1e100}}
    assert build_run_query({"filterModel": model}, controls())["where"] == ["reward:above:0", "reward:below:1e+99"]
    assert sort_of({"sortModel": [{"colId": "tags", "sort": "asc"}, {"colId": "run", "sort": "asc"}]}) == "run:asc"


@pytest.mark.parametrize("text", ["=1+1", "+p", "-2+3", "@SUM(1)", "\t=1"])
def test_a_text_is_no_formula_in_a_spreadsheet(text):
    """A sender of runs must not reach the computer of a person who opens the file."""
    assert csv_cell(text) == f"'{text}"
    assert csv_cell([text, "b"]) == f"'{text}, b"
    assert (csv_cell(-0.5), csv_cell("plain")) == (-0.5, "plain")
