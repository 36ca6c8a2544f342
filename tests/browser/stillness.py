"""Checks that everything below a chart is at its final place before the library of charts is loaded."""

from playwright.sync_api import Page, expect


def check_stillness(page: Page, address: str, *, below: str, chart: str) -> None:
    """Open a page whose library of charts is held back, release it, and assert that nothing below the chart moves."""
    waiting = []
    page.route("**/*plotly*", lambda route: waiting.append(route))  # noqa: PLW0108 - Playwright marks it
    page.goto(address, wait_until="commit")
    still = page.locator(below)
    expect(still).to_be_visible()
    before = still.bounding_box()["y"]
    assert waiting
    for route in waiting:
        route.continue_()
    expect(page.locator(f"{chart} .main-svg").first).to_be_visible()
    assert still.bounding_box()["y"] == before
