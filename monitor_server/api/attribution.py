"""The attribution of an alert: reads the store, calls `monitor_server.attribution`, and shapes the answer."""

from monitor_server.api.schemas import ResponseItem, Schema, response_item
from monitor_server.attribution.action_likelihoods import ActionChange
from monitor_server.attribution.displaced import Measure, SampledAction, Token
from monitor_server.attribution.explain import Explanation, NotObserved, explain
from monitor_server.attribution.onsets import ROWS, Moved, Signal
from monitor_server.attribution.resemblance import Resembling
from monitor_server.attribution.sampled_responses import Sampled
from monitor_server.attribution.vitals import VITALS
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.responses import StoredResponse

__all__ = ["Attribution", "attribution"]

MAX_RESPONSES = 400  # the newest before the alert; eight steps of many ranks
DENSE_STEPS = 2 * ROWS


class RemedyItem(Schema):
    """One change to make, and the source that found it to help."""

    change: str
    how: str
    source: str


class Attribution(Schema):
    """Why an alert fires, as far as observed; ``responses`` holds every response that another field names by id."""

    alert_id: str
    moved: list[Moved]
    actions: list[ActionChange]
    crossed_step: int | None
    sampled_actions: list[SampledAction]
    measure: Measure | None
    displaced: list[str]
    tokens: list[Token]
    resembling: list[Resembling]
    responses: list[ResponseItem]
    remedies: list[RemedyItem]
    not_observed: list[NotObserved]


def attribution(reading: Repositories, alert: Alert) -> Attribution:
    """Explain an alert from what the store holds of the steps before it."""
    stored = list(reading.responses.page(alert.run_id, limit=MAX_RESPONSES, to_step=alert.opened_step))
    found = explain(
        kind=alert.kind,
        opened_step=alert.opened_step,
        signals=_signals(reading, alert),
        responses=[_sampled(one) for one in stored],
    )
    return _shaped(reading, alert, found, {str(one.number): one for one in stored})


def _signals(reading: Repositories, alert: Alert) -> dict[str, Signal]:
    """Read the vital signals up to the alert: two steps for each row, or all steps if those give too few rows."""
    start = max(0, alert.opened_step - DENSE_STEPS)
    columns = reading.series.read(alert.run_id, list(VITALS), from_step=start, to_step=alert.opened_step)
    if start and max(len(column.steps) for column in columns) < ROWS:
        columns = reading.series.read(alert.run_id, list(VITALS), to_step=alert.opened_step)
    return {column.signal: (column.steps, column.values) for column in columns}


def _sampled(stored: StoredResponse) -> Sampled:
    response = stored.response
    arrays = {
        name: None if (array := getattr(response, name)) is None else array.to_numpy()
        for name in ("displacements", "token_ids")
    }
    return Sampled(
        id=str(stored.number),
        step=stored.step,
        # Each rank may number its groups on its own. Within one rank, equal numbers always mean one group.
        group=None if response.group is None else (stored.step, stored.rank, response.group),
        correct=response.correct,
        length=response.length,
        logprob=response.logprob,
        displacement=response.displacement,
        actions=response.actions.to_numpy(),
        logprobs=response.logprobs.to_numpy(),
        pieces=response.pieces,
        **arrays,
    )


def _shaped(reading: Repositories, alert: Alert, found: Explanation, stored: dict[str, StoredResponse]) -> Attribution:
    ordinals = reading.attempts.ordinals(alert.run_id)
    displaced = [response.id for response in found.displaced]
    named = dict.fromkeys([*displaced, *(pair.response for pair in found.resembling)])
    return Attribution(
        alert_id=alert.id,
        moved=found.moved,
        actions=found.actions,
        crossed_step=found.crossed_step,
        sampled_actions=found.sampled_actions,
        measure=found.measure,
        displaced=displaced,
        tokens=found.tokens,
        resembling=found.resembling,
        responses=[
            response_item(alert.run_id, stored[name], attempt=ordinals[stored[name].attempt][0]) for name in named
        ],
        remedies=[RemedyItem(change=r.change, how=r.how, source=r.source) for r in found.remedies],
        not_observed=found.not_observed,
    )
