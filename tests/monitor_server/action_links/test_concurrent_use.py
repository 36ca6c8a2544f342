"""A link is pressed on PostgreSQL while its alert or the link ends: it does nothing, and its page says why."""

import pytest

from monitor_server.action_links.issuing import PATH, LinkIssuer
from monitor_server.action_links.signing import LinkSecrets
from monitor_server.action_links.using import LinkState, read_link, use_link
from monitor_server.settings import Settings
from tests.monitor_server.interrupted_stores import Between, waiting_for_a_lock
from tests.monitor_server.simulated_collectors import SimulatedCollector


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("page", "found"), [(0.0, LinkState.RESOLVED), (1.0, None)], ids=["resolved alert", "ended links"]
)
def test_a_link_does_nothing_about_an_alert_that_is_resolved_at_the_same_moment(  # noqa: PLR0917 - fixtures
    store, append, scripted, clock, database_url, page, found
):
    """The alert fired when the button was pressed. It is resolved, or all links are ended, when the run is locked."""
    collector = SimulatedCollector(store, scripted, clock, Settings(stall_minimum_seconds=1e9))
    run_id = append(records=[{"step": 1, "scalars": {"page": 1.0}}])
    collector.project(run_id)
    secrets = LinkSecrets()
    issuer = LinkIssuer(secrets, public_url="", seconds=3600.0)
    with store.write() as repositories:
        row = repositories.alerts.page(limit=1, run_id=run_id)[0]
        issuer.issue(repositories, [row], message_id="m", channel="hook", now=clock.now)
        body = issuer.add_links(repositories, {"id": "m", "alerts": [row]}, now=clock.now)
        token = body["alerts"][0]["links"][0]["url"].removeprefix(PATH)
        confirmation = read_link(repositories, secrets, token, now=clock.now).confirmation
    uses, threads = [], []

    def press():
        with store.write() as repositories:
            uses.append(use_link(repositories, secrets, token, confirmation, now=clock.now))

    def wait_and_end(repositories):
        threads.append(waiting_for_a_lock(press, database_url))
        if found is None:
            repositories.action_links.end_secrets(now=clock.now)
            repositories.action_links.expire_links(now=clock.now)

    append(records=[{"step": 2, "scalars": {"page": page}}])
    begin = Between(store, at_end=wait_and_end)
    assert collector.project(run_id, store=begin) is False
    threads[0].join()
    assert [(use.is_done, use.found and use.found.state) for use in uses] == [(False, found)]
