"""A link is pressed on PostgreSQL while its alert ends: it does nothing, and its page says that the alert ended."""

import pytest

from monitor_server.action_links.issuing import PATH, LinkIssuer
from monitor_server.action_links.signing import LinkSecrets
from monitor_server.action_links.using import LinkState, read_link, use_link
from monitor_server.settings import Settings
from tests.monitor_server.interrupted_stores import Between, waiting_for_a_lock
from tests.monitor_server.simulated_collectors import SimulatedCollector


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_link_does_nothing_about_an_alert_that_is_resolved_at_the_same_moment(
    store, append, scripted, clock, database_url
):
    """The alert fired when the button was pressed, and is resolved when the run can be locked."""
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

    append(records=[{"step": 2, "scalars": {}}])
    begin = Between(store, at_end=lambda _: threads.append(waiting_for_a_lock(press, database_url)))
    assert collector.project(run_id, store=begin) is False
    threads[0].join()
    assert [(use.is_done, use.found.state) for use in uses] == [(False, LinkState.RESOLVED)]
