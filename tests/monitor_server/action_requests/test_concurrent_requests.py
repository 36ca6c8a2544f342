"""Requests on PostgreSQL while the alert that they are about ends: nobody can ask for anything about it then."""

import pytest

from monitor_server.action_requests.requesting import RequestableAction, request_action
from monitor_server.errors import RequestNotPossible
from monitor_server.settings import Settings
from tests.monitor_server.interrupted_stores import Between, waiting_for_a_lock
from tests.monitor_server.simulated_collectors import SimulatedCollector


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_no_action_is_asked_for_an_alert_that_is_resolved_at_the_same_moment(
    store, append, scripted, clock, database_url
):
    """The alert fired when the request began, and is resolved when the run can be locked."""
    collector = SimulatedCollector(store, scripted, clock, Settings(stall_minimum_seconds=1e9))
    run_id = append(records=[{"step": 1, "scalars": {"page": 1.0}}])
    collector.project(run_id)
    with store.read() as repositories:
        (alert,) = repositories.alerts.firing(run_id)
    refused, threads = [], []

    def ask():
        with store.write() as repositories, pytest.raises(RequestNotPossible, match="the alert is resolved") as error:
            request_action(repositories, alert.id, RequestableAction.STOP, by="ann", note="", now=clock.now)
        refused.append(error)

    append(records=[{"step": 2, "scalars": {}}])
    begin = Between(store, at_end=lambda _: threads.append(waiting_for_a_lock(ask, database_url)))
    assert collector.project(run_id, store=begin) is False
    threads[0].join()
    assert refused
    with store.read() as repositories:
        assert repositories.action_requests.open_of_run(run_id) == []
