"""Runs are selected in the table by boxes and compared, also while the table changes."""

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.browser.fleet_table import names, open_fleet, row_named, scroll_to
from tests.many_runs import serving_many_runs

MANY = 6_000  # the pages but the fleet offer a choice among the newest 5,000


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A collector with thousands of finished runs, which no test changes."""
    with serving_many_runs(tmp_path_factory.mktemp("many"), MANY) as live:
        yield live


@pytest.fixture
def fleet(start_collector):
    """A collector with three runs, the newest of which is first."""
    live = start_collector(dashboard="dashboard.app:attach")
    for name in ("a", "b", "c"):
        live.run(run=name, records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    return live


def box(visit, name):
    return visit.page.get_by_role("checkbox", name=f"Select {name}", exact=True)


def said(visit):
    return visit.page.locator("#fleet-chosen")


def compare(visit):
    visit.page.get_by_role("button", name="Compare").click()


def compared(visit):
    return visit.page.locator(".compare-page .legend li")


def test_selected_runs_are_compared_in_the_order_in_which_they_were_selected(fleet, visit):
    """The address of the comparison names them; back in the fleet they are selected still."""
    open_fleet(fleet, visit)
    box(visit, "b").check()
    box(visit, "a").check()
    box(visit, "c").check()
    box(visit, "b").uncheck()
    expect(said(visit)).to_have_text("2 selected")
    compare(visit)
    expect(compared(visit)).to_contain_text(["a", "c"])
    ids = {run["name"]: run["id"] for run in fleet.get("/runs")["items"]}
    visit.page.wait_for_url(f"**/compare?run={ids['a']}&run={ids['c']}")
    visit.page.go_back()
    expect(box(visit, "a")).to_be_checked()
    expect(box(visit, "b")).not_to_be_checked()
    expect(said(visit)).to_have_text("2 selected")
    visit.page.get_by_role("button", name="Select none").click()
    expect(box(visit, "a")).not_to_be_checked()
    expect(said(visit)).to_be_empty()
    expect(visit.page.get_by_role("button", name="Select none")).to_be_hidden()


def test_too_few_and_too_many_are_said_in_words(many, visit):
    """The message has the number of selected runs. The selection stays, and twenty runs are compared."""
    open_fleet(many, visit, "?sort=name:asc")
    compare(visit)
    expect(said(visit)).to_have_text("Select 2 to 20 runs by the boxes before their names; none are selected.")
    box(visit, "run-00000-seed0").check()
    expect(said(visit)).to_have_text("1 selected")
    compare(visit)
    expect(said(visit)).to_contain_text("1 is selected.")
    scroll_to(visit, 40)
    for place in range(40, 60):
        scroll_to(visit, place)
        box(visit, f"run-000{place}-seed{place % 4}").check()
    compare(visit)
    expect(said(visit)).to_have_text("At most 20 runs can be compared; 21 are selected.")
    box(visit, "run-00059-seed3").uncheck()
    compare(visit)
    visit.page.wait_for_url("**/compare?run=*")
    expect(compared(visit)).to_have_count(20)


def test_the_selection_holds_across_blocks_orders_and_filters(many, visit):
    """A run that no loaded block holds any more stays selected, also if the menu of runs does not list it."""
    open_fleet(many, visit, "?sort=name:asc")
    box(visit, "run-00000-seed0").check()
    scroll_to(visit, 5000)
    box(visit, "run-05000-seed0").check()
    expect(said(visit)).to_have_text("2 selected")
    visit.page.get_by_role("columnheader", name="Reward", exact=True).locator(".ag-header-cell-text").click()
    scroll_to(visit, 0)
    expect(box(visit, "run-00000-seed0")).to_be_checked()
    expect(box(visit, "run-00001-seed1")).not_to_be_checked()
    visit.page.get_by_placeholder("Find a run").fill("run-05000")
    expect(names(visit)).to_have_count(1)
    expect(box(visit, "run-05000-seed0")).to_be_checked()
    visit.page.locator("#fleet-group").click()
    visit.page.get_by_role("option", name="by project").click()
    expect(visit.page.locator(".fleet-group")).to_have_count(1)
    expect(box(visit, "run-05000-seed0")).to_be_checked()
    compare(visit)
    expect(compared(visit)).to_contain_text(["run-00000-seed0", "run-05000-seed0"])
    expect(visit.page.locator(".left-out")).to_have_count(0)


def test_the_selection_follows_its_run_when_the_table_refreshes(fleet, visit):
    """A new run moves the others down by a row."""
    open_fleet(fleet, visit)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    box(visit, "b").check()
    fleet.run(run="d", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    expect(names(visit)).to_have_text(["d", "c", "b", "a"])
    for name in "abcd":
        expect(box(visit, name)).to_be_checked(checked=name == "b")
    fleet.run(run="b", records=[{"step": 1, "scalars": {"reward/mean": "NaN"}}])
    expect(names(visit)).to_have_text(["b", "d", "c", "a"])
    for name in "abcd":
        expect(box(visit, name)).to_be_checked(checked=name == "b")
    expect(said(visit)).to_have_text("1 selected")


def test_runs_are_selected_by_keys(fleet, visit):
    """The key x selects the run that j chose, as Tab and the space bar do; Enter compares."""
    open_fleet(fleet, visit)
    expect(names(visit)).to_have_count(3)
    visit.page.keyboard.press("j")
    visit.page.keyboard.press("x")
    expect(box(visit, "c")).to_be_checked()
    expect(row_named(visit, "c").locator(".fleet-row")).to_be_focused()
    visit.page.keyboard.press("x")
    expect(box(visit, "c")).not_to_be_checked()
    visit.page.keyboard.press("x")
    visit.page.get_by_role("columnheader").last.focus()
    visit.page.keyboard.press("Tab")
    expect(box(visit, "c")).to_be_focused()
    for _ in ("link", "row", "box"):
        visit.page.keyboard.press("Tab")
    expect(box(visit, "b")).to_be_focused()
    visit.page.keyboard.press("Space")
    expect(said(visit)).to_have_text("2 selected")
    visit.page.get_by_role("button", name="Compare").focus()
    visit.page.keyboard.press("Enter")
    expect(compared(visit)).to_contain_text(["c", "b"])


def test_the_boxes_have_names_and_contrast(fleet, visit):
    """Runs are selected in both themes; the wall has no boxes."""
    open_fleet(fleet, visit)
    box(visit, "a").check()
    compare(visit)
    for scheme in ("light", "dark"):
        visit.page.emulate_media(color_scheme=scheme)
        assert violations(visit) == []
    visit.page.get_by_role("button", name="Wall").click()
    expect(box(visit, "a")).to_have_count(0)
    expect(said(visit)).to_be_hidden()
    visit.page.keyboard.press("Escape")
    expect(box(visit, "a")).to_be_checked()


def test_the_boxes_are_no_column_that_is_chosen_or_saved(fleet, visit):
    """The boxes are no column in the address and none in the menu."""
    open_fleet(fleet, visit, "?columns=reward,run")
    box(visit, "a").check()
    assert visit.page.url.endswith("?columns=reward%2Crun")
    headings = visit.page.get_by_role("columnheader")
    expect(headings.first).to_have_text("Select")
    visit.page.get_by_text("Columns", exact=True).click()
    expect(visit.page.locator("#fleet-columns")).not_to_contain_text("Select")
