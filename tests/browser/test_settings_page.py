"""The page of settings in a real browser: keys are made and revoked, projects deleted, channels saved."""

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.browser.held_answers import HOLD, hold_back, let_go
from tests.live import eventually
from tests.monitor_server.access.conftest import Guarded
from tests.monitor_server.notifications.receivers import receiving, webhook, written


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
    """The key works until it is revoked, and is hidden after a sign-out; a form without a name makes nothing."""
    open_settings(guarded, visit, guarded.key("admin", name="root"))
    make = visit.page.get_by_role("button", name="Make a key")
    make.click()
    expect(visit.page.locator("#key-message")).to_contain_text("A key needs a name")
    visit.page.get_by_label("Name", exact=True).fill("<i>trainer</i> 中文")
    visit.page.get_by_label("Name", exact=True).press("Enter")
    secret = visit.page.locator("#key-made code")
    expect(secret).to_contain_text("rlv_")
    made = secret.inner_text()
    assert guarded.ask("GET", "/api/v1/runs", made).status == 200
    asked = []

    def accept(dialog):
        asked.append(dialog.message)
        dialog.accept()

    visit.page.on("dialog", accept)
    visit.page.get_by_role("button", name="Revoke: <i>trainer</i> 中文").click()
    expect(visit.page.locator("#key-message")).to_have_text("Revoked.")
    assert guarded.ask("GET", "/api/v1/runs", made).status == 401
    question = "Revoke the key {}? Whoever uses it is refused at once. This cannot be undone."
    assert asked == [question.format("<i>trainer</i> 中文")]
    visit.page.remove_listener("dialog", accept)
    visit.page.once("dialog", lambda dialog: dialog.dismiss())
    with visit.page.expect_event("dialog") as own:
        visit.page.get_by_role("button", name="Revoke: root").click()
    assert own.value.message == f"{question.format('root')} This is the key with which you are signed in."
    make.click()
    expect(secret).not_to_have_text(made)
    expect(secret).to_be_visible()
    visit.page.set_viewport_size({"width": 1440, "height": 150})  # as if there were many keys
    assert visit.page.locator("#keys-list .scroll").evaluate("list => list.clientHeight < list.scrollHeight")
    other = visit.page.context.new_page()
    other.goto(f"{guarded.live.url}/rules")
    other.get_by_role("button", name="Sign out root").click()
    expect(visit.page.get_by_label("Name", exact=True)).to_be_visible()
    expect(visit.page.locator("#live-state")).to_have_attribute("data-signed-out", "")
    expect(secret).to_be_hidden()
    visit.page.close()  # it goes on to ask for its stream
    visit.complaints.clear()  # the browser reports that the session was refused


def test_a_second_press_does_not_hide_the_key_that_was_made(guarded, visit):
    """Before the answer it is not sent; after the answer the collector refuses the name, and the secret stays."""
    visit.page.add_init_script(HOLD)
    open_settings(guarded, visit, guarded.key("admin", name="root"))
    name = visit.page.get_by_label("Name", exact=True)
    name.fill("trainer")
    hold_back(visit.page, "key-make.n_clicks")
    name.press("Enter")
    visit.page.wait_for_function("() => window.letGo")
    name.press("Enter")
    visit.page.get_by_role("button", name="Make a key").click()
    let_go(visit.page)
    expect(visit.page.locator("#key-made code")).to_contain_text("rlv_")
    expect(visit.page.locator("#key-message")).to_be_empty()
    name.press("Enter")
    expect(visit.page.locator("#key-message")).to_contain_text("Not made.")
    expect(visit.page.locator("#key-made code")).to_contain_text("rlv_")


def test_a_key_that_somebody_else_has_revoked_is_said_to_be(guarded, visit):
    """The message has the author and the time; the list of an open page is read again when the tab comes into view."""
    admin = guarded.key("admin", name="root")
    other = guarded.key("admin", name="<b>berta</b>")
    for name in ("first", "second"):
        guarded.key("read", name=name)
    open_settings(guarded, visit, admin)
    row = visit.page.locator("#keys-list tr")
    expect(visit.page.get_by_role("button", name="Revoke: first")).to_be_visible()
    assert guarded.ask("DELETE", "/api/v1/keys/first", other).status == 200
    visit.page.get_by_role("button", name="Revoke: first").click()
    expect(visit.page.locator("#key-message")).to_contain_text("This key was revoked already, ")
    expect(visit.page.locator("#key-message")).to_contain_text("<b>berta</b>")
    expect(visit.page.locator("#key-message time")).not_to_be_empty()
    expect(row.filter(has_text="first")).to_contain_text("revoked")
    assert guarded.ask("DELETE", "/api/v1/keys/second", other).status == 200
    expect(visit.page.locator("#projects-list")).to_contain_text("No project has a run.")
    guarded.send(admin, project="<i>new</i>")
    visit.page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(row.filter(has_text="second")).to_contain_text("revoked")
    expect(visit.page.locator("#projects-list")).to_contain_text("<i>new</i>")


def test_a_key_whose_days_are_refused_is_not_made_for_good(guarded, visit):
    """A text that is no number of days is refused, and no key without an end is made in its place."""
    admin = guarded.key("admin", name="root")
    open_settings(guarded, visit, admin)
    message, days = visit.page.locator("#key-message"), visit.page.get_by_label("Days until it expires")
    visit.page.get_by_label("Name", exact=True).fill("trainer")
    for text, said in (
        ("-3", "greater than 0"),
        ("1e", "got '1e'"),
        ("0", "greater than 0"),
        ("99999", "less than or equal"),
    ):
        days.fill(text)
        visit.page.get_by_role("button", name="Make a key").click()
        expect(message).to_contain_text("Not made.")
        expect(message).to_contain_text(said)
    visit.page.get_by_label("Name", exact=True).fill("train\u202eer")
    days.fill("0.5")
    visit.page.get_by_role("button", name="Make a key").click()
    expect(message).to_contain_text("must be one line of characters that can be seen")
    assert [key["name"] for key in guarded.ask("GET", "/api/v1/keys", admin).json()["items"]] == ["root"]
    visit.page.get_by_label("Name", exact=True).fill("trainer")
    visit.page.get_by_role("button", name="Make a key").click()
    expect(visit.page.locator("#key-made")).to_contain_text("Copy the key trainer now")
    made_key = guarded.ask("GET", "/api/v1/keys", admin).json()["items"][1]
    assert made_key["expires_at"] - made_key["created_at"] == 43_200


def test_a_key_that_only_reads_is_shown_what_it_lacks(guarded, visit):
    """Sections that the key does not reach say so; projects are shown, and not deleted."""
    guarded.send(guarded.key("ingest", name="trainer"), run="kept", project="mine")
    open_settings(guarded, visit, guarded.key("read", name="reader"))
    expect(visit.page.locator(".table-card", has_text="Who may do what.")).to_contain_text("Not shown.")
    expect(visit.page.get_by_role("rowheader", name="mine")).to_be_visible()
    assert visit.page.get_by_role("button", name="Delete: mine").count() == 0


def test_the_text_of_a_file_of_channels_is_checked_in_words(guarded, visit):
    """A problem is named with its place, a usable text with its numbers and with the needs of the collector."""
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


def test_channels_and_routes_are_saved_tested_and_restored(start_collector, visit):
    """Problems stand at their fields, secrets are not shown again, and a form that missed a change does not undo it."""
    settings = {"dashboard": "dashboard.app:attach", "channel_networks": "127.0.0.0/8"}
    guarded, page = Guarded(start_collector(**settings)), visit.page
    secret = guarded.key("admin", name="root")
    with receiving() as receiver:
        open_settings(guarded, visit, secret)
        expect(page.locator("#channels")).to_contain_text("Nobody is notified yet")
        save = page.get_by_role("button", name="Save the channel")
        page.get_by_label("Name (small letters").fill("Team!")
        save.click()
        expect(page.locator("#channel-problem-name")).to_contain_text("must have 1 to 40 small letters")
        expect(page.locator("#channel-problem-url")).to_have_text("must be set")
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert violations(visit) == []
        page.get_by_label("Name (small letters").fill("team")
        page.get_by_label("Address (empty").fill(receiver.url + "/hidden-path")
        page.get_by_label("Signing secret").fill("a-hidden-secret-1")
        save.click()
        expect(page.locator("#channel-saved")).to_contain_text("Saved.")
        expect(page.get_by_label("Address (empty")).to_have_value("")
        page.get_by_role("button", name="Send a test: team").click()
        expect(page.locator("#channel-state")).to_have_text("team has accepted a test message.")
        page.get_by_role("button", name="Edit: route 1").click()
        page.get_by_label("Of projects").fill("<b>mine</b>")
        page.get_by_role("button", name="Save the route").click()
        expect(page.locator("#channels")).to_contain_text("warning and more severe, of <b>mine</b>")
        page.get_by_role("button", name="Edit: team").click()
        expect(page.locator("#channel-saved")).to_have_text("")
        expect(page.get_by_label("Name (small letters")).to_be_disabled()
        body = {"version": 2, "settings": {"channels": {}, "routes": []}, "by": "ann"}
        assert guarded.ask("PUT", "/api/v1/notifications/settings", secret, body=body).status == 200
        save.click()
        expect(page.locator("#channel-saved")).to_contain_text("in force, 3, by ann (root), got 2")
        expect(page.locator("#channels")).to_contain_text("Nobody is notified yet")
        page.get_by_text("Earlier versions").click()
        page.get_by_role("button", name="Restore: version 2").click()
        expect(page.locator("#channel-state")).to_have_text("Version 2 is in force again.")
        page.get_by_role("button", name="Save the route").click()
        expect(page.locator("#route-saved")).to_contain_text("press Edit beside the route again")
        page.get_by_role("button", name="Send a test: team").click()
        expect(page.locator("#channel-state")).to_have_text("team has accepted a test message.")
        page.evaluate("document.querySelectorAll('main details').forEach((menu) => (menu.open = true))")
        assert violations(visit) == []
        assert not page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        assert "hidden-path" not in page.content()
        page.context.set_offline(True)
        page.get_by_role("button", name="Save the route").click()
        expect(page.locator("#route-saved")).to_have_text("Not sent: nobody answers.")
        page.context.set_offline(False)
    visit.complaints[:] = [
        text for text in visit.complaints if "ERR_INTERNET_DISCONNECTED" not in text and "Callback" not in text
    ]


def test_how_long_data_is_kept_is_saved_once_a_person_has_confirmed_what_it_removes(start_collector, visit):
    """The question has the numbers; values of the environment cannot be changed; a reader has no form and no button."""
    settings = {"dashboard": "dashboard.app:attach", "retention_seconds": 0.05, "run_days": 900.0}
    guarded, page, asked = Guarded(start_collector(**settings)), visit.page, []
    secret = guarded.key("admin", name="root")
    for steps in (5, 10, 15, 20):  # records of one batch are removed together
        guarded.send(secret, run="r", steps=steps)
    open_settings(guarded, visit, guarded.key("read", name="reader"))
    expect(page.locator("#retention")).to_contain_text("RLVITALS_RUN_DAYS")
    assert page.get_by_text("Change how long data is kept").count() == 0
    for name in ("Make a key", "Delete"):
        assert page.get_by_role("button", name=name).count() == 0
    open_settings(guarded, visit, secret)
    expect(page.get_by_role("button", name="Delete")).to_be_visible()
    page.get_by_text("Change how long data is kept").click()
    expect(page.locator("#retention-field-run-days")).to_be_disabled()
    save, field = page.get_by_role("button", name="Save what is kept"), page.locator("#retention-field-record-steps")
    save.click()
    expect(page.locator("#retention-state")).to_have_text("Nothing was changed.")
    field.fill("5")
    field.press("Enter")
    field.press("Tab")
    page.wait_for_function("() => !window.rlvitals.requests.isAsking()")
    expect(page.locator("#retention-state")).to_have_text("Nothing was changed.")  # so that Enter has asked nothing
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    save.click()
    eventually(lambda: asked or page.wait_for_timeout(20))
    assert "This removes about 15 raw records of 1 run" in asked[0]
    page.once("dialog", lambda dialog: dialog.accept())
    save.click()
    expect(page.locator("#retention-state")).to_contain_text("Saved.")
    expect(page.locator("#retention")).to_contain_text("the dashboard (root)")
    page.wait_for_function("() => !window.rlvitals.hasWritten()")
    status = guarded.ask("GET", "/api/v1/status", secret).json()
    assert status["retention"]["record_steps"] == 5


def test_who_may_not_change_channels_and_where_a_file_states_them_sees_them_alone(start_collector, visit, tmp_path):
    """No form is drawn, and the page says why."""
    with receiving() as receiver:
        path = written(tmp_path, webhook("hook", receiver.url), '[[routes]]\nchannels = ["hook"]\n')
        guarded = Guarded(start_collector(dashboard="dashboard.app:attach", notifications=path))
        open_settings(guarded, visit, guarded.key("operate", name="night shift"))
        expect(visit.page.get_by_text("Only shown.")).to_contain_text("operate")
        open_settings(guarded, visit, guarded.key("admin", name="root"))
        expect(visit.page.get_by_text("The file that RLVITALS_NOTIFICATIONS names is in force")).to_be_visible()
        expect(visit.page.get_by_role("button", name="Send a test: hook")).to_be_visible()
        assert visit.page.get_by_role("button", name="Save the channel").count() == 0


@pytest.mark.parametrize("visit", [(390, 844)], ids=["390x844"], indirect=True)
def test_every_screen_shows_all_of_projects_and_retention_and_changes_lead_to_their_runs(start_collector, visit):
    """A long name of a project, and the sentence of a limit, have several lines; nothing must be scrolled sideways."""
    live = start_collector(dashboard="dashboard.app:attach")
    run_id = live.run(run="kept", project="a-project-whose-name-is-longer-than-a-phone-is-wide")
    live.run(run="other", project="LONG" * 40)
    live.pool.request("PATCH", f"{live.url}/api/v1/runs/{run_id}", json={"title": "the one"})
    visit.page.goto(f"{live.url}/settings")
    for width in (390, 1440):
        visit.page.set_viewport_size({"width": width, "height": 844})
        for section in ("#projects-list", "#retention"):
            table = visit.page.locator(f"{section} .scroll")
            expect(table.get_by_role("columnheader").last).to_be_visible()
            assert table.evaluate("(box) => box.scrollWidth - box.clientWidth") == 0
    visit.page.get_by_role("link", name=run_id).click()
    expect(visit.page.get_by_role("heading", name="the one")).to_be_visible()
