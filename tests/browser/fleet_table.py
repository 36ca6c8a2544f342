"""Parts of the table of runs in a browser."""

from playwright.sync_api import expect


def names(visit):
    return visit.page.locator(".fleet-row .name")


def open_fleet(fleet, visit, query=""):
    visit.page.goto(f"{fleet.url}/{query}")
    expect(visit.page.locator("#fleet-grid .ag-header-cell").first).to_be_visible()


def scroll_to(visit, place):
    visit.page.evaluate(f"dash_ag_grid.getApi('fleet-grid').ensureIndexVisible({place}, 'top')")


def row_named(visit, name):
    return visit.page.locator(".ag-row", has=visit.page.locator(".fleet-row .name", has_text=name))
