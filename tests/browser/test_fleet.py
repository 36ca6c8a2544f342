"""The table of runs in a real browser: sorted, filtered, grouped, its columns remembered, its views saved."""

import csv
import json
import re
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from monitor_server.settings import Settings
from monitor_server.store.repositories.saved_views import SavedView
from tests.browser.fleet_table import names, open_fleet, row_named, scroll_to
from tests.live import serving
from tests.many_runs import add_runs, serving_many_runs


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A collector with five runs of two projects, which no test changes."""
    address = f"sqlite:///{tmp_path_factory.mktemp('fleet')}/fleet.db"
    with serving(Settings(database_url=address, dashboard="dashboard.app:attach")) as live:
        yield filled(live)


def filled(live):
    """Send the runs to a collector, and return it."""
    for index, (project, reward) in enumerate([("one", 0.5), ("one", 0.9), ("two", 0.1), ("two", 0.7), ("two", 0.3)]):
        live.run(
            run=f"r{index}-seed{index}", project=project, records=[{"step": 0, "scalars": {"reward/mean": reward}}]
        )
    return live


def choose(visit, label, option):
    visit.page.locator(f"#{label}").click()
    visit.page.get_by_role("option", name=option).click()


def test_runs_are_sorted_by_a_column_and_the_address_holds_it(fleet, visit):
    """A click on a heading sorts, a second one turns the order round; a new page at the address is sorted alike."""
    open_fleet(fleet, visit)
    heading = visit.page.get_by_role("columnheader", name="Reward", exact=True).locator(".ag-header-cell-text")
    heading.click()
    expect(names(visit)).to_have_text([f"r{index}-seed{index}" for index in (2, 4, 0, 3, 1)])
    heading.click()
    expect(names(visit)).to_have_text([f"r{index}-seed{index}" for index in (1, 3, 0, 4, 2)])
    visit.page.wait_for_url("**/?sort=reward%3Adesc")
    address = visit.page.url
    visit.page.evaluate("localStorage.clear()")
    visit.page.goto("about:blank")
    visit.page.goto(address)
    expect(names(visit)).to_have_text([f"r{index}-seed{index}" for index in (1, 3, 0, 4, 2)])


def test_runs_are_grouped_and_a_group_closes(fleet, visit):
    """Each group has a head with its number of runs, and stays together when the table is sorted."""
    open_fleet(fleet, visit, "?group=project&sort=reward:desc")
    heads = visit.page.locator(".fleet-group")
    expect(heads).to_have_text(["two3 runs", "one2 runs"])
    expect(names(visit)).to_have_text([f"r{index}-seed{index}" for index in (3, 4, 2, 1, 0)])
    heads.first.click()
    expect(heads.first).to_have_attribute("aria-expanded", "false")
    expect(names(visit)).to_have_text(["r1-seed1", "r0-seed0"])


@contextmanager
def held_reads(visit):
    """Keep the questions for rows from the server, and send them in their order when the block ends."""
    held, is_over = [], []

    def hold(route):
        if not is_over and "getRowsRequest" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    visit.page.route(re.compile("_dash-update-component"), hold)
    yield held
    is_over.append(True)
    for route in held:
        route.continue_()


def test_the_table_says_that_it_loads_until_what_was_asked_for_is_there(fleet, visit):
    """Until then the table shows rows of the request before."""
    open_fleet(fleet, visit, "?group=project")
    loading = visit.page.locator(".ag-overlay-loading-center")
    expect(names(visit)).to_have_count(5)
    expect(loading).to_have_count(0)
    grid = "dash_ag_grid.getApi('fleet-grid')"
    reward = {"reward": {"filterType": "number", "type": "greaterThan", "filter": 0.8}}
    heading = visit.page.get_by_role("columnheader", name="Reward", exact=True).locator(".ag-header-cell-text")
    changes = [
        (heading.click, 5),
        (lambda: visit.page.evaluate(f"(model) => {grid}.setFilterModel(model)", reward), 1),
        (lambda: visit.page.evaluate(f"() => {grid}.setFilterModel(null)"), 5),
        (visit.page.locator(".fleet-group").first.click, 2),
        (lambda: choose(visit, "fleet-group", "by status"), 5),
        (lambda: visit.page.get_by_placeholder("Find a run").fill("r4"), 1),
    ]
    for change, count in changes:
        with held_reads(visit) as held:
            change()
            expect(loading).to_have_text("Loading...")
            expect(loading).to_be_visible()
            assert len(held) <= 1  # the next question waits for the answer to this one
        expect(loading).to_have_count(0)
        expect(names(visit)).to_have_count(count)


def test_the_answer_to_an_earlier_question_does_not_end_the_loading(fleet, visit):
    """A second change while the first one is loaded."""
    open_fleet(fleet, visit)
    expect(names(visit)).to_have_count(5)
    with held_reads(visit) as held:
        choose(visit, "fleet-group", "by project")
        expect(visit.page.locator(".ag-overlay-loading-center")).to_be_visible()
        choose(visit, "fleet-group", "by status")
        with visit.page.expect_response(re.compile("_dash-update-component")):
            held.pop(0).continue_()
        expect(visit.page.locator(".ag-overlay-loading-center")).to_be_visible()
    expect(visit.page.locator(".ag-overlay-loading-center")).to_have_count(0)
    expect(visit.page.locator(".fleet-group")).to_have_text(["running5 runs"])


def test_a_refresh_does_not_say_that_it_loads(start_collector, visit):
    """The rows in view are still those that were asked for."""
    fleet = filled(start_collector(dashboard="dashboard.app:attach"))
    open_fleet(fleet, visit)
    expect(names(visit)).to_have_count(5)
    expect(visit.page.locator(".ag-overlay-loading-center")).to_have_count(0)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    with held_reads(visit):
        with visit.page.expect_request(lambda sent: "getRowsRequest" in (sent.post_data or "")):
            fleet.run(run="new", project="one", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
        visit.page.wait_for_function("() => document.querySelector('.summary').textContent.startsWith('6')")
        assert visit.page.locator(".ag-overlay-loading-center").count() == 0
    expect(names(visit)).to_have_count(6)


def test_a_group_that_was_closed_is_closed_when_the_reader_comes_back(fleet, visit):
    """The reader comes back from the page of a run, in the same window."""
    open_fleet(fleet, visit, "?group=project&sort=reward:desc")
    head = visit.page.locator(".fleet-group", has_text="two")
    head.click()
    expect(names(visit)).to_have_text(["r1-seed1", "r0-seed0"])
    names(visit).first.click()
    expect(visit.page.locator("h1")).to_have_text("r1-seed1")
    visit.page.go_back()
    expect(names(visit)).to_have_text(["r1-seed1", "r0-seed0"])
    head.click()
    expect(names(visit)).to_have_count(5)


def test_a_group_without_a_value_has_a_head_of_its_own(fleet, visit):
    """It closes like the others."""
    open_fleet(fleet, visit, "?group=owner")
    head = visit.page.locator(".fleet-group")
    expect(head).to_have_text(["no owner5 runs"])
    head.click()
    expect(names(visit)).to_have_count(0)
    head.click()
    expect(names(visit)).to_have_count(5)


def test_columns_are_chosen_and_remembered(fleet, visit):
    """A column that is chosen is there on the next visit, without an address that says so."""
    open_fleet(fleet, visit)
    project = visit.page.get_by_role("columnheader", name="Project", exact=True)
    expect(project).to_have_count(0)
    visit.page.get_by_text("Columns", exact=True).click()
    visit.page.locator("#fleet-columns").get_by_text("Project", exact=True).click()
    expect(project).to_have_count(1)
    visit.page.wait_for_url("**/?columns=*")
    visit.page.goto(f"{fleet.url}/compare")
    visit.page.goto(fleet.url)
    expect(project).to_have_count(1)


def test_a_view_is_saved_under_a_name(fleet, visit):
    """Another browser chooses it, its address opens it, and a view that is deleted is gone from the collector."""
    open_fleet(fleet, visit)
    visit.page.get_by_placeholder("Find a run").fill("r4")
    expect(names(visit)).to_have_text(["r4-seed4"])
    visit.page.once("dialog", lambda dialog: dialog.accept("the <b>fourth</b>"))
    visit.page.get_by_role("button", name="Save view").click()
    visit.page.wait_for_url("**/?view=*")  # a question that opens after the click is answered while Playwright waits
    (view,) = fleet.get("/views")["items"]
    assert (view["name"], view["query"], view["saved_by"]) == ("the <b>fourth</b>", "run=r4", "the dashboard")
    assert visit.page.url.endswith(f"/?view={view['id']}")
    expect(visit.page.locator("#fleet-view-state")).to_be_empty()
    visit.page.get_by_placeholder("Find a run").fill("")
    expect(names(visit)).to_have_count(5)
    expect(visit.page.locator("#fleet-view-state")).to_have_text("changed, not saved")
    visit.page.evaluate("localStorage.clear()")
    visit.page.reload()
    expect(names(visit)).to_have_count(5)
    choose(visit, "fleet-view", "the <b>fourth</b>")
    expect(names(visit)).to_have_text(["r4-seed4"])
    open_fleet(fleet, visit, f"?view={view['id']}")
    expect(names(visit)).to_have_text(["r4-seed4"])
    expect(visit.page.locator("#fleet-view")).to_contain_text("the <b>fourth</b>")
    expect(visit.page.locator("#fleet-view-state")).to_be_empty()
    delete = visit.page.get_by_role("button", name="Delete view")
    visit.page.once("dialog", lambda dialog: dialog.dismiss())
    with visit.page.expect_event("dialog") as asked:
        delete.click()
    assert asked.value.message == 'Delete the view "the <b>fourth</b>" for everybody? This cannot be undone.'
    assert [held["id"] for held in fleet.get("/views")["items"]] == [view["id"]]
    assert fleet.pool.request("DELETE", f"{fleet.url}/api/v1/views/{view['id']}").status == 200  # in another tab
    visit.page.once("dialog", lambda dialog: dialog.accept())
    delete.click()
    expect(delete).to_be_hidden()
    expect(visit.page.locator("#fleet-view-state")).to_be_empty()
    assert fleet.get("/views")["items"] == []


def add_view(fleet, project):
    """Save the view that a key of a project saves; the browser has no key, and is nobody's of a project."""
    with fleet.app.state.collector.store.write() as repositories:
        view = SavedView(id=project, name="ours", project=project, query="run=r1", saved_at=1.0, saved_by="Eve")
        repositories.saved_views.add(view)


def test_a_view_that_was_saved_elsewhere_meanwhile_is_not_replaced_unasked(start_collector, visit):
    """The page does not know the view of the other tab, so the first save only names it; the second one asks.

    Views of this name in projects, older and newer, are others; the menu tells them apart.
    """
    fleet = filled(start_collector(dashboard="dashboard.app:attach"))
    add_view(fleet, "one")
    open_fleet(fleet, visit)
    visit.page.get_by_placeholder("Find a run").fill("r4")
    expect(names(visit)).to_have_text(["r4-seed4"])
    theirs = {"name": "ours", "query": "run=r2", "by": "Ada"}
    assert fleet.pool.request("POST", f"{fleet.url}/api/v1/views", json=theirs).status == 200  # in another tab
    add_view(fleet, "two")
    asked = []
    visit.page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept("ours")))
    save = visit.page.get_by_role("button", name="Save view")
    save.click()
    message = visit.page.locator("#fleet-view-state")
    expect(message).to_have_text("Not saved. Ada has saved a view of this name meanwhile. Save again to replace it.")

    def queries():
        return {held["project"]: held["query"] for held in fleet.get("/views")["items"]}

    assert queries() == {None: "run=r2", "one": "run=r1", "two": "run=r1"}
    save.click()
    expect(message).to_be_empty()
    assert queries() == {None: "run=r4", "one": "run=r1", "two": "run=r1"}
    assert asked == ["Name of the view", "Name of the view", 'Replace the view "ours" of Ada?']
    expect(visit.page.locator("#fleet-view")).to_contain_text("ours (every project)")
    choose(visit, "fleet-view", "ours (project two)")
    expect(names(visit)).to_have_text(["r1-seed1"])


OLD_FILTERS = {
    "reward": {"filterType": "number", "type": "equals", "filter": 0.5},
    "run": {
        "filterType": "text",
        "operator": "OR",
        "conditions": [
            {"filterType": "text", "type": "contains", "filter": "r1"},
            {"filterType": "text", "type": "notContains", "filter": "<b>"},
        ],
    },
    "step": {"filterType": "number", "type": "lessThan", "filter": 9},
}


def test_a_view_says_which_of_its_filters_are_not_applied(start_collector, visit):
    """Older versions offered other filters. A view that is saved again keeps the offered filters and has no message."""
    fleet = filled(start_collector(dashboard="dashboard.app:attach"))
    view = {"name": "old", "query": urlencode({"group": "project", "filter": json.dumps(OLD_FILTERS)})}
    assert fleet.pool.request("POST", f"{fleet.url}/api/v1/views", json=view).status == 200
    (saved,) = fleet.get("/views")["items"]
    open_fleet(fleet, visit, f"?view={saved['id']}")
    expect(names(visit)).to_have_count(5)
    expect(visit.page.get_by_text("5 match")).to_be_visible()
    explanation = visit.page.locator("#fleet-left-out")
    expect(explanation).to_contain_text(
        'The view "old" has filters that the table does not offer: "Reward equals 0.5", '
    )
    expect(explanation).to_contain_text('"Run contains r1 or does not contain <b>". They are not applied')
    expect(explanation).to_contain_text("save the view under its name")
    expect(visit.page.locator("#fleet-view-state")).to_have_text("changed, not saved")
    visit.page.on("dialog", lambda dialog: dialog.accept(dialog.default_value))
    visit.page.get_by_role("button", name="Save view").click()
    expect(explanation).to_be_hidden()
    expect(visit.page.locator("#fleet-view-state")).to_be_empty()
    visit.page.reload()
    expect(names(visit)).to_have_count(5)
    expect(explanation).to_be_hidden()


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        (
            {
                "filter": "{",
                "group": "colour",
                "state": "asleep",
                "sort": "reward:up",
                "columns": "colour",
                "view": "gone",
                "project": "p" * 3000,
            },
            [
                "This address has filters that cannot be read",
                'Runs cannot be grouped by "colour"',
                'Runs have no state "asleep"',
                'Runs cannot be sorted by "reward:up"',
                'There is no column "colour"',
                "The saved view of this address is not there",
                "No project has a name of more than 200 letters",
            ],
        ),
        (
            {"filter": "[1]", "sort": "tags:asc"},
            ["This address has filters that cannot be read", 'Runs cannot be sorted by "tags:asc"'],
        ),
        (
            {"filter": '{"x":{"type":"lessThan","filter":1},"tags":null,"run":{"type":"contains"}}'},
            ['"x is below 1", "Tags cannot be read"', '"Run contains"'],
        ),
    ],
    ids=["each part", "other values", "filters"],
)
def test_what_an_address_asks_for_in_vain_is_said(fleet, visit, query, lines):
    """The table is shown without it."""
    open_fleet(fleet, visit, f"?{urlencode(query)}")
    for line in lines:
        expect(visit.page.locator("#fleet-left-out")).to_contain_text(line)
    expect(names(visit)).to_have_count(5)


def test_more_than_the_collector_takes_is_said(fleet, visit):
    """The message stands beside the number of runs that match the filters that the collector accepts."""
    open_fleet(fleet, visit, "?run=r+s+e+d+r+s+e+d+r+s+nothing")
    expect(names(visit)).to_have_count(5)
    expect(visit.page.locator("#fleet-matches")).to_contain_text("5 match. Only the first 10 words")


def test_a_text_that_is_no_unicode_matches_nothing(fleet, visit):
    """The text matches nothing in the search and nothing in the name of a project."""
    for query in ("?run=%ED%A0%80", "?project=%ED%A0%80", "?run=%ff", "?curve=%ED%A0%80&run=%ED%A0%80"):
        open_fleet(fleet, visit, query)
        expect(visit.page.get_by_text("No run matches.")).to_be_visible()


def test_the_rows_that_are_shown_are_saved_as_csv(fleet, visit):
    """One line a run, by the names of the columns."""
    open_fleet(fleet, visit, "?project=one")
    expect(names(visit)).to_have_count(2)
    with visit.page.expect_download() as download:
        visit.page.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text("utf-8-sig").splitlines()))
    assert {row["Run"]: row["Reward"] for row in rows} == {"r0-seed0": "0.5", "r1-seed1": "0.9"}


def test_the_small_curves_are_those_of_a_signal_that_is_chosen(start_collector, visit):
    """The signal heads the column, the address holds it, a step that is pushed is appended, and rewards come back."""
    fleet = start_collector(dashboard="dashboard.app:attach")
    for name in ("one", "two"):
        records = [{"step": step, "scalars": {"reward/mean": 0.5, "own/<b>x</b>": float(step)}} for step in range(5)]
        fleet.run(run=name, records=records)
    fleet.run(run="without", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    open_fleet(fleet, visit)
    visit.page.get_by_text("Columns", exact=True).click()
    visit.page.get_by_label("Curve of").fill("own/<b>x</b>")
    visit.page.get_by_label("Curve of").press("Enter")
    curves = visit.page.locator(".sparkline[data-sparkline='[0,1,2,3,4]']")
    expect(curves).to_have_count(2)
    expect(visit.page.locator(".sparkline[data-sparkline='[]']")).to_have_count(1)
    expect(visit.page.get_by_role("columnheader", name="own/<b>x</b>")).to_have_count(1)
    visit.page.wait_for_url("**curve=own**")
    visit.page.reload()
    expect(curves).to_have_count(2)
    fleet.run(run="one", records=[{"step": 5, "scalars": {"reward/mean": 0.75, "own/<b>x</b>": 9.0}}])
    expect(visit.page.locator(".sparkline[data-sparkline='[0,1,2,3,4,9]']")).to_have_count(1)
    expect(visit.page.locator('[row-id] [col-id="reward"]', has_text="0.750")).to_have_count(1)
    visit.page.get_by_text("Columns", exact=True).click()
    visit.page.get_by_label("Curve of").fill("")
    visit.page.get_by_label("Curve of").press("Enter")
    expect(visit.page.locator(".sparkline[data-sparkline='[0.5]']")).to_have_count(1)
    expect(visit.page.get_by_role("columnheader", name="Newest rewards")).to_have_count(1)


@pytest.mark.parametrize("query", ["", "?curve=own"], ids=["the rewards", "a chosen signal"])
def test_a_step_that_arrives_twice_or_late_is_in_the_small_curve_once(start_collector, visit, query):
    """A step may be in the rows, or in the values that were read, when the stream brings it."""
    fleet = start_collector(dashboard="dashboard.app:attach")
    records = [{"step": step, "scalars": {"reward/mean": float(step), "own": float(step)}} for step in range(5)]
    run_id = fleet.run(run="one", records=records)
    open_fleet(fleet, visit, query)
    read = visit.page.locator(".sparkline[data-sparkline='[0,1,2,3,4]']")
    expect(read).to_have_count(1)

    def push(step, **heard):
        values = {"reward/mean": step, "own": step}
        pushed = {"run_id": run_id, "attempt": 1, "step": step, "phase": "healthy", "signals": values} | heard
        visit.page.evaluate("(step) => { window.rlvitals.pushFleetStep(step); }", pushed)

    push(4, last_seen=1e9)
    expect(read).to_have_count(1)
    push(5, last_seen=1e9)  # from a backlog: the run was last heard long ago, not when its step is processed
    push(5)  # from a collector of another version, which does not send it
    expect(visit.page.locator(".ag-cell[col-id='last_seen'] time")).to_have_text(re.compile(r"^\d+ days ago"))
    expect(visit.page.locator(".sparkline[data-sparkline='[0,1,2,3,4,5]']")).to_have_count(1)


@pytest.mark.parametrize("query", ["", "?curve=own"], ids=["the rewards", "a chosen signal"])
def test_a_run_that_goes_back_has_its_small_curve_read_again(start_collector, visit, query):
    """A step before the newest one shows it; the curve ends there, and grows with the steps that are repeated."""
    fleet = start_collector(dashboard="dashboard.app:attach")

    def send(steps, value, **fields):
        scalars = {"reward/mean": value, "own": value}
        fleet.run(run="one", records=[{"step": step, "scalars": scalars} for step in steps], **fields)

    send(range(5), 1.0)
    open_fleet(fleet, visit, query)
    expect(visit.page.locator(".sparkline[data-sparkline='[1,1,1,1,1]']")).to_have_count(1)
    send([2], 7.0, attempt=2)
    expect(visit.page.locator(".sparkline[data-sparkline='[1,1,7]']")).to_have_count(1)
    send([3], 8.0, attempt=2)
    expect(visit.page.locator(".sparkline[data-sparkline='[1,1,7,8]']")).to_have_count(1)


def test_the_wall_has_no_controls(fleet, visit):
    """Escape brings them back."""
    open_fleet(fleet, visit)
    visit.page.get_by_role("button", name="Wall").click()
    expect(visit.page.get_by_placeholder("Find a run")).to_be_hidden()
    visit.page.keyboard.press("Escape")
    expect(visit.page.get_by_placeholder("Find a run")).to_be_visible()


@pytest.mark.parametrize("visit", [(1280, 800), (1920, 1080)], ids=["1280x800", "1920x1080"], indirect=True)
def test_no_number_is_cut_off_and_names_take_what_is_left_of_a_wide_screen(start_collector, visit):
    """Numbers are whole on the wall too, in its larger type. On a narrow screen the middle of a long name is cut."""
    fleet = start_collector(dashboard="dashboard.app:attach")
    name = "search-r1-qwen2.5-7b-instruct-lr1e-6-kl0.001-seed"
    rewards = [9.99e-4] * 16 + [5.55e-4] * 8
    records = [{"step": step, "scalars": {"reward/mean": reward}} for step, reward in enumerate(rewards)]
    for seed in (3, 4):
        fleet.run(run=f"{name}{seed}", project="long", records=records)
    open_fleet(fleet, visit)
    expect(visit.page.locator('[row-id] [col-id="change"]')).to_have_text(["−4.44e−4"] * 2)

    width = "getBoundingClientRect().width"
    cut_numbers = f"""[...document.querySelectorAll('.ag-row .number')].filter(
        (each) => each.{width} > each.parentElement.{width}).map((each) => each.textContent)"""
    cut_names = """[...document.querySelectorAll('.ag-row .name-start')].filter(
        (each) => each.scrollWidth > each.clientWidth).length"""
    assert visit.page.evaluate(cut_numbers) == []
    assert visit.page.evaluate(cut_names) == (0 if visit.page.viewport_size["width"] > 1900 else 2)
    visit.page.get_by_role("button", name="Wall").click()
    expect(visit.page.get_by_placeholder("Find a run")).to_be_hidden()
    assert visit.page.evaluate(cut_numbers) == []


def test_the_first_columns_fit_in_a_window_of_1440_pixels(fleet, visit):
    """The table does not scroll sideways before a reader has chosen more columns."""
    open_fleet(fleet, visit)
    table = visit.page.locator(".ag-body-horizontal-scroll-viewport")
    expect(visit.page.locator('[row-id] [col-id="lead"]').first).to_be_visible()
    assert table.evaluate("(each) => each.scrollWidth - each.clientWidth") == 0


def test_a_step_and_a_new_run_reach_the_table(start_collector, visit):
    """The newest reward of a run changes without a request; a run that is new appears."""
    fleet = filled(start_collector(dashboard="dashboard.app:attach"))
    open_fleet(fleet, visit, "?project=one")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    fleet.run(run="r0-seed0", project="one", records=[{"step": 1, "scalars": {"reward/mean": 0.625}}])
    expect(visit.page.locator('[row-id] [col-id="reward"]', has_text="0.625")).to_have_count(1)
    fleet.run(run="new", project="one", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    expect(names(visit).filter(has_text="new")).to_have_count(1)


@pytest.mark.parametrize("visit", [(360, 740)], ids=["360x740"], indirect=True)
def test_nothing_of_the_bar_is_cut_off_on_a_phone(fleet, visit):
    """The mark, the pages, the state of the connection and the theme end within the screen."""
    open_fleet(fleet, visit)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    parts = "[...document.querySelectorAll('.bar > *')]"
    ends = visit.page.evaluate(f"{parts}.map((each) => each.getBoundingClientRect().right)")
    assert 340 < max(ends) <= 360
    links = "document.querySelector('.bar-links')"
    assert visit.page.evaluate(f"{links}.scrollWidth <= {links}.clientWidth")
    expect(visit.page.get_by_role("link", name="rlvitals")).to_be_visible()


MANY = 10_000


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A collector with ten thousand finished runs, which no test changes."""
    with serving_many_runs(tmp_path_factory.mktemp("many"), MANY) as live:
        yield live


def test_the_store_sorts_ten_thousand_runs(many, visit):
    """The collector sorts more runs than the browser holds: the least reward is in no row that was read before."""
    open_fleet(many, visit)
    expect(visit.page.locator(".summary")).to_contain_text("10,000 runs")
    expect(names(visit).first).to_have_text("run-09999-seed3")
    visit.page.get_by_role("columnheader", name="Reward", exact=True).locator(".ag-header-cell-text").click()
    expect(names(visit).first).to_have_text("run-00000-seed0")


def test_a_reader_scrolls_to_row_nine_thousand_and_back(many, visit):
    """Rows are read when they come into view. The address of a run that was chosen by a key stays chosen meanwhile."""
    open_fleet(many, visit, "?sort=name:asc")
    expect(names(visit).first).to_have_text("run-00000-seed0")
    visit.page.keyboard.press("j")
    expect(row_named(visit, "run-00000-seed0").locator(".fleet-row")).to_be_focused()
    scroll_to(visit, 9000)
    expect(row_named(visit, "run-09000-seed0")).to_have_attribute("aria-rowindex", "9002")
    assert len(visit.page.locator(".fleet-row").all()) < 100
    scroll_to(visit, 0)
    expect(row_named(visit, "run-00000-seed0").locator(".fleet-row")).to_be_focused()


def test_ten_thousand_runs_are_searched_filtered_and_grouped(many, visit):
    """Words, a filter in a heading that the address holds, and groups whose runs are read when they come into view."""
    open_fleet(many, visit, "?run=many%2009999")
    expect(names(visit)).to_have_text(["run-09999-seed3"])
    query = '?sort=name:asc&filter={"reward":{"filterType":"number","type":"greaterThan","filter":9997}}'
    open_fleet(many, visit, query)
    expect(names(visit)).to_have_text(["run-09998-seed2", "run-09999-seed3"])
    expect(visit.page.get_by_text("2 match")).to_be_visible()
    open_fleet(many, visit, "?group=setting&sort=name:asc")
    expect(visit.page.locator(".fleet-group").first).to_have_text("run-099991 run")
    expect(visit.page.locator("#fleet-matches")).to_be_empty()
    scroll_to(visit, 2 * MANY - 1)
    expect(visit.page.locator(".fleet-group").last).to_contain_text("run-00000")
    expect(names(visit).last).to_have_text("run-00000-seed0")


def test_the_table_is_as_high_as_its_rows(many, visit):
    """It takes the rest of the screen for many runs, and no more than a filter in a heading needs for one."""
    open_fleet(many, visit, "?run=many%2009999")
    expect(names(visit)).to_have_count(1)
    expect(visit.page.locator("#fleet-table")).to_have_css("height", "340px")
    visit.page.get_by_placeholder("Find a run").fill("")
    expect(visit.page.locator("#fleet-table")).to_have_css("height", f"{visit.page.viewport_size['height'] - 190}px")


def test_nothing_matches_is_said(many, visit):
    """The rows come back when the filter ends."""
    open_fleet(many, visit)
    visit.page.get_by_placeholder("Find a run").fill("nonsense")
    expect(visit.page.get_by_text("No run matches.")).to_be_visible()
    visit.page.get_by_placeholder("Find a run").fill("run-00007")
    expect(names(visit)).to_have_text(["run-00007-seed3"])
    expect(visit.page.get_by_text("No run matches.")).to_be_hidden()


def test_a_row_in_view_follows_its_run_among_ten_thousand(tmp_path, visit):
    """A step is pushed into it; an alert moves it to the top and marks the tab; the rows in view alone are read."""
    address = f"sqlite:///{tmp_path}/fleet.db"
    with serving(Settings(database_url=address, dashboard="dashboard.app:attach")) as live:
        add_runs(address, MANY, now=time.time())
        run_id = live.run(run="alive", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
        open_fleet(live, visit)
        expect(names(visit).first).to_have_text("alive")
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
        live.run(run="alive", records=[{"step": 1, "scalars": {"reward/mean": 0.625}}])
        expect(visit.page.locator(f'[row-id="{run_id}"] [col-id="reward"]')).to_have_text("0.625")
        read = []
        visit.page.on("response", lambda answer: read.append(answer) if "update-component" in answer.url else None)
        live.run(run="alive", records=[{"step": 2, "scalars": {"reward/mean": "NaN"}}])
        expect(visit.page.locator(f'[row-id="{run_id}"] .badge.severity')).to_have_count(1)
        expect(visit.page.locator(".summary .badge")).to_have_count(1)
        expect(visit.page).to_have_title(re.compile("^[▲●] "))
        assert max(answer.request.sizes()["responseBodySize"] for answer in read) < 100_000


def test_the_small_curve_of_the_largest_numbers_is_drawn(start_collector, visit):
    """Their distance is no number, and a curve that cannot be drawn is a complaint."""
    live = start_collector(dashboard="dashboard.app:attach")
    live.run(run="r", records=[{"step": at, "scalars": {"reward/mean": (-1) ** at * 1.7e308}} for at in range(3)])
    open_fleet(live, visit)
    curve = visit.page.locator("#fleet-grid .sparkline path").first
    expect(curve).to_have_attribute("d", "M1.0 2.0h0L50.0 22.0L99.0 2.0")
