"""A person confirms the link of a notification."""

from monitor_server.action_links.using import LinkState, LinkUse, use_link
from monitor_server.alerts.silencing import AppliedSilences
from monitor_server.api.running_collector.collector import Collector
from monitor_server.errors import InvalidField, OutcomeUnknown, RequestNotPossible
from monitor_server.store.repositories import Repositories

__all__ = ["use_action_link"]


async def use_action_link(collector: Collector, token: str, confirmation: str) -> LinkUse:
    """Carry out the action of a notification's link, once, and return the result.

    Only a usable link whose page was confirmed reaches the writer.

    Raises:
        RequestNotPossible: If the trainer cannot receive the request; the link can be used again.
        InvalidField: If the alerts of the run and kind were acknowledged too often.
        Unavailable: If nothing was begun.
        OutcomeUnknown: If the change may have been stored.
    """
    now = collector.clock()
    checked = await collector.links.check(token, confirmation)
    if checked.found is None or checked.found.state is not LinkState.OPEN or not checked.is_confirmed:
        return checked

    def write(repositories: Repositories) -> tuple[LinkUse, AppliedSilences]:
        use = use_link(repositories, collector.link_secrets, token, confirmation, now=now)
        nothing = AppliedSilences([], has_more=False)
        return use, collector.silencing.apply(repositories) if use.is_done else nothing

    under_way = collector.submit(checked.found.link.run_id, write)
    try:
        use, applied = await collector.deliveries.wait(under_way)
    except (RequestNotPossible, InvalidField):
        raise
    except Exception as error:
        raise OutcomeUnknown("the database has not confirmed the change") from error
    collector.silencing.report(applied)
    if use.found is not None and use.is_done:
        collector.requests.note(use.found.link.run_id)
    if use.found is not None and use.position is not None:
        await collector.verdict_wait.until_projected(use.found.link.run_id, use.position)
    return use
