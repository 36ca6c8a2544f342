"""The page of settings in a real browser: keys are made and revoked, projects deleted."""

import pytest
from playwright.sync_api import expect

from tests.monitor_server.access.conftest import Guarded


@pytest.fixture
def guarded(start_collector):
    """A collector with its dashboard, which needs keys."""
    return Guarded(start_collector(dashboard="dashboard.app:attach"))


def open_settings(guarded, visit, secret):
    visit.page.goto(f"{guarded.live.url}/sign-in?next=/settings")
    visit.page.get_by_label("Key").fill(secret)
    visit.page.get_by_role("button", name="Sign in").click()
    expect(visit.page.get_by_role("heading", name="Settings")).to_be_visible()


def test_a_key_is_made_shown_once_and_revoked(guarded, visit):
    """The key works until it is revoked; a form without a name makes nothing."""
    open_settings(guarded, visit, guarded.key("admin", name="root"))
    make = visit.page.get_by_role("button", name="Make a key")
    make.click()
    expect(visit.page.locator("#key-made")).to_contain_text("A key needs a name")
    visit.page.get_by_label("Name", exact=True).fill("<i>trainer</i> 中文")
    make.click()
    secret = visit.page.locator("#key-made code")
    expect(secret).to_contain_text("rlv_")
    made = secret.inner_text()
    assert guarded.ask("GET", "/api/v1/runs", made).status == 200
    visit.page.get_by_role("button", name="Revoke: <i>trainer</i> 中文").click()
    expect(visit.page.locator("#key-made")).to_have_text("Revoked.")
    assert guarded.ask("GET", "/api/v1/runs", made).status == 401


def test_a_key_that_only_reads_is_shown_what_it_lacks(guarded, visit):
    """Sections that the key does not reach say so; projects are shown, and not deleted."""
    guarded.send(guarded.key("ingest", name="trainer"), run="kept", project="mine")
    open_settings(guarded, visit, guarded.key("read", name="reader"))
    expect(visit.page.locator("#keys-list")).to_contain_text("Not shown.")
    visit.page.once("dialog", lambda dialog: dialog.accept())
    visit.page.get_by_role("button", name="Delete: mine").click()
    expect(visit.page.locator("#project-state")).to_contain_text("Not deleted.")


def test_the_text_of_a_file_of_channels_is_checked_in_words(guarded, visit):
    """A problem is named with its place, a usable text with its numbers and with what the collector must have."""
    open_settings(guarded, visit, guarded.key("operate", name="night shift"))
    visit.page.get_by_text("Check the text of a file").click()
    text, answer = visit.page.get_by_label("Text of the file"), visit.page.locator(".file-answer")
    visit.page.get_by_role("button", name="Check", exact=True).click()
    expect(answer).to_contain_text("The collector would take this file: 1 channels, 1 routes.")
    expect(answer).to_contain_text("It must also have: the variable SLACK_URL in its environment.")
    text.fill(text.input_value().replace('"warning"', '"<b>paging</b>"'))
    visit.page.get_by_role("button", name="Check", exact=True).click()
    expect(answer.locator("li")).to_contain_text("routes[0].severity must be 'info', 'warning' or 'critical'")
    expect(answer.locator("li")).to_contain_text("<b>paging</b>")
