"""The attribution of an alert and of responses: reads the store, calls `monitor_server.attribution`, shapes answers."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from monitor_server.access.cursors import hide
from monitor_server.api.pagination import MAX_NUMBERS
from monitor_server.api.schemas import ResponseItem, Schema, response_item, response_numbers
from monitor_server.attribution.action_likelihoods import ActionChange
from monitor_server.attribution.displaced import Measure, SampledAction, Token, displaced_responses
from monitor_server.attribution.explain import Explanation, NotObserved, explain
from monitor_server.attribution.onsets import ROWS, Moved, Signal
from monitor_server.attribution.resemblance import Resembling, closest
from monitor_server.attribution.sampled_responses import Sampled, distinct
from monitor_server.attribution.vitals import VITALS
from monitor_server.detection.suspects import first_steps
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.responses import StoredResponse

__all__ = ["Attribution", "ResponsePairs", "attribution", "response_pairs"]

MAX_RESPONSES = 400  # the newest before the alert; these are eight steps of many ranks
MAX_ROWS = 2 * ROWS

Ranges = Mapping[int, tuple[int, int]]
"""The first and the last stored step of each attempt."""


class RemedyItem(Schema):
    """A recommended change, and the source that found it to help."""

    change: str
    how: str
    source: str


class Attribution(Schema):
    """The explanation of an alert, as far as observed; ``responses`` has each response whose id another field has.

    ``first_steps`` says what to check first where ``remedies`` is empty.
    """

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
    first_steps: str
    not_observed: list[NotObserved]


class ResponsePairs(Schema):
    """Displaced correct responses, the worst first, each with the most similar incorrect one of its group.

    ``measure`` is the measure of their order, null if nothing was sampled. ``responses`` contains every response of a
    pair.
    """

    measure: Measure | None
    pairs: list[Resembling]
    responses: list[ResponseItem]


def response_pairs(
    reading: Repositories, run_id: str, *, from_step: int | None, to_step: int | None, limit: int
) -> ResponsePairs:
    """Pair the sampled responses of some steps; the newest `MAX_RESPONSES` of them are compared."""
    stored = list(reading.responses.page(run_id, limit=MAX_RESPONSES, from_step=from_step, to_step=to_step))
    by_id = {_id(one): one for one in stored}
    different = distinct([_build_sampled(one) for one in stored])
    measure, leading = displaced_responses(different, most=len(different))
    pairs: list[Resembling] = []
    named: dict[str, StoredResponse] = {}
    for pair in closest(leading, different)[:limit]:
        both = {name: by_id[name] for name in (pair.displaced, pair.response)}
        if pairs and sum(map(response_numbers, (named | both).values())) > MAX_NUMBERS:
            break
        pairs.append(pair)
        named |= both
    return ResponsePairs(measure=measure, pairs=pairs, responses=_items(reading, run_id, named.values()))


def attribution(reading: Repositories, alert: Alert) -> Attribution:
    """Explain an alert from what the store holds of the steps before it, as they were when it opened."""
    ranges = reading.steps.ranges(alert.run_id)
    then = _find_replaced_attempt(reading, alert, ranges)
    stored = list(
        reading.responses.page(alert.run_id, limit=MAX_RESPONSES, to_step=alert.opened_step, up_to_attempt=then)
    )
    found = explain(
        kind=alert.kind,
        opened_step=alert.opened_step,
        signals=_signals(reading, alert, ranges, up_to_attempt=max(ranges, default=0) if then is None else then),
        responses=[_build_sampled(one) for one in stored],
    )
    return _shape_answer(reading, alert, found, {_id(one): one for one in stored})


def _find_replaced_attempt(reading: Repositories, alert: Alert, ranges: Ranges) -> int | None:
    """Return the attempt in which an alert opened, where a later one has made steps before it again; else None."""
    then = reading.attempts.newest_at(alert.run_id, alert.opened_at)
    if then is None or not any(attempt > then and first <= alert.opened_step for attempt, (first, _) in ranges.items()):
        return None
    return then


def _signals(reading: Repositories, alert: Alert, ranges: Ranges, *, up_to_attempt: int) -> dict[str, Signal]:
    """Read the vital signals up to the alert as they were in an attempt: the newest rows of it and of those before it.

    There are two rows for each that an explanation reads, because a signal may be observed at every second one only.
    """
    names, rows, last = list(VITALS), dict[int, tuple[float | None, ...]](), alert.opened_step
    for attempt in sorted((attempt for attempt in ranges if attempt <= up_to_attempt), reverse=True):
        first = ranges[attempt][0]
        if first <= last and len(rows) < MAX_ROWS:
            read = reading.steps.columns(
                alert.run_id, attempt, names, from_step=first, to_step=last, limit=MAX_ROWS - len(rows), from_end=True
            )
            rows |= zip(read.steps, zip(*read.values, strict=True), strict=True)
            last = first - 1
    return {name: _observed_signal(rows, place) for place, name in enumerate(names)}


def _observed_signal(rows: Mapping[int, Sequence[float | None]], place: int) -> Signal:
    """Return the steps at which the signal of a place was observed, ascending, and its values."""
    found = {step: value for step, values in sorted(rows.items()) if (value := values[place]) is not None}
    return np.array(list(found), dtype=np.int64), np.array(list(found.values()), dtype=np.float64)


def _id(stored: StoredResponse) -> str:
    """Return the id of a response, in the form that `response_item` gives to the current caller."""
    return str(hide(stored.number))


def _build_sampled(stored: StoredResponse) -> Sampled:
    response = stored.response
    arrays = {
        name: None if (array := getattr(response, name)) is None else array.to_numpy()
        for name in ("displacements", "token_ids")
    }
    return Sampled(
        id=_id(stored),
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


def _shape_answer(
    reading: Repositories, alert: Alert, found: Explanation, stored: dict[str, StoredResponse]
) -> Attribution:
    leading = [response.id for response in found.displaced]
    named = dict.fromkeys([*leading, *(pair.response for pair in found.resembling)])
    return Attribution(
        alert_id=alert.id,
        moved=found.moved,
        actions=found.actions,
        crossed_step=found.crossed_step,
        sampled_actions=found.sampled_actions,
        measure=found.measure,
        displaced=leading,
        tokens=found.tokens,
        resembling=found.resembling,
        responses=_items(reading, alert.run_id, [stored[name] for name in named]),
        remedies=[RemedyItem(change=r.change, how=r.how, source=r.source) for r in found.remedies],
        first_steps=first_steps(alert.kind),
        not_observed=found.not_observed,
    )


def _items(reading: Repositories, run_id: str, stored: Iterable[StoredResponse]) -> list[ResponseItem]:
    ordinals = reading.attempts.ordinals(run_id)
    return [response_item(run_id, one, attempt=ordinals[one.attempt][0]) for one in stored]
