"""The palette in a real browser: it leads from any page to a run or a page by its name."""

from playwright.sync_api import expect

from tests.browser.accessibility import violations


def test_the_palette_leads_to_a_run_by_its_name(collector, visit):
    """Enter opens the first link, the arrows go to the others, and Escape closes; a name from outside is text."""
    name = "needle <img src=x onerror=alert(1)>"
    run_id = collector.run(run=name, project="p", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    page = visit.page
    page.goto(f"{collector.url}/compare")
    expect(page.locator("#compare-body")).to_contain_text("Choose two runs")
    page.keyboard.press("Control+k")
    field, palette = page.get_by_placeholder("Go to a run or a page"), page.get_by_role("dialog")
    expect(field).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(palette.get_by_role("link", name="All runs")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.type("needle")
    expect(palette.get_by_role("link")).to_have_text([f"{name}p"])
    assert violations(visit) == []
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run_id}")
    expect(palette).to_have_count(0)
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
    page.keyboard.press("Control+k")
    field.fill("nobody")
    expect(palette).to_contain_text("No run and no page matches.")
    page.keyboard.press("Escape")
    expect(palette).to_have_count(0)


def test_enter_opens_what_is_typed_also_before_it_is_found(collector, visit):
    """The links of the text before are not opened; Enter of an input method takes over a word and opens nothing."""
    run_id = collector.run(run="needle", project="p", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    page = visit.page
    page.goto(f"{collector.url}/compare")
    expect(page.locator("#compare-body")).to_contain_text("Choose two runs")
    page.keyboard.press("Control+k")
    field, palette = page.get_by_placeholder("Go to a run or a page"), page.get_by_role("dialog")
    expect(field).to_be_focused()
    composed = "new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, isComposing: true})"
    field.evaluate(f"(field) => field.dispatchEvent({composed})")
    expect(palette).to_have_count(1)
    held, is_over = [], []

    def hold(route):
        if is_over:
            route.continue_()
        else:
            held.append(route)

    page.route("**/_dash-update-component*", hold)
    page.keyboard.type("needle")
    page.keyboard.press("Enter")
    assert page.url == f"{collector.url}/compare"
    while not held:
        page.wait_for_timeout(50)
    is_over.append(True)
    for route in held:
        route.continue_()
    page.wait_for_url(f"**/runs/{run_id}")
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")


def test_the_browsers_way_back_closes_the_palette(collector, visit):
    """The page that was before it is free to be used."""
    page = visit.page
    page.goto(collector.url)
    page.get_by_role("link", name="Rules").click()
    expect(page.get_by_role("heading", name="Rules", exact=True)).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_have_count(1)
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_palette_leads_to_the_page_of_the_api(collector, visit):
    """The collector serves it, so the browser loads it as a new document; it is no page of the dashboard."""
    page = visit.page
    page.goto(f"{collector.url}/compare")
    expect(page.locator("#compare-body")).to_contain_text("Choose two runs")
    page.keyboard.press("Control+k")
    page.keyboard.type("api")
    page.keyboard.press("Enter")
    page.wait_for_url("**/docs")
    expect(page.locator("#live-state")).to_have_count(0)
    expect(page.locator("body")).not_to_contain_text("No such page")
