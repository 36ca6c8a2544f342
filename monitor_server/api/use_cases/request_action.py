"""A person requests an action from the trainer of an alert's run."""

from monitor_server.access.audit.entries import LONGEST_WORDS, record_change
from monitor_server.access.callers import Caller
from monitor_server.action_requests.requesting import RequestableAction, request_action
from monitor_server.api.running_collector.collector import Collector
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.action_requests import StoredRequest
from monitor_server.store.repositories.audit_log import detail_of_run
from monitor_server.text_safety.printable import printable

__all__ = ["request_trainer_action"]


async def request_trainer_action(
    collector: Collector, alert_id: str, action: RequestableAction, *, by: str, note: str, author: Caller
) -> StoredRequest:
    """Request an action from the trainer of an alert's run, in the name of its author.

    Raises:
        UnknownAlert: If there is no such alert.
        RequestNotPossible: If the alert is resolved, the run has ended, or the same request waits.
        Unavailable: If it could not be stored.
    """
    now, signed = collector.clock(), author.signature(by)

    def write(repositories: Repositories) -> StoredRequest:
        request = request_action(repositories, alert_id, action, by=signed, note=note, now=now)
        project = repositories.runs.project(request.run_id)
        words = f"asked for, about alert {alert_id}" + (f": {note}" if note else "")
        detail = detail_of_run(request.run_id, printable(words, longest=LONGEST_WORDS))
        record_change(
            repositories, author, f"run.{action}", request.run_id,
            now=now, project=project, by=by, detail=detail,
        )  # fmt: skip
        return request

    request = await collector.write(alert_id, write)
    collector.requests.note(request.run_id)
    return request
