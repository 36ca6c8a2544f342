"""Sampled responses."""

from monitor_server.access.cursors import hide
from monitor_server.api.schemas.answer_spans import AnswerSource, find_answers
from monitor_server.api.schemas.base import Schema
from monitor_server.store.repositories.responses import StoredResponse
from trainer_hooks.wire import Array, ResponseKind

__all__ = ["ResponseItem", "response_item", "response_numbers"]


class ResponseItem(Schema):
    """A sampled response: its T tokens, of which those inside ``actions`` have a likelihood.

    ``answers`` are the places of its answers, read from the tags in its text (``tags``) or assumed to be its last
    action (``last_action``); ``answer_source`` is null if neither shows one.
    """

    id: str
    run_id: str
    step: int
    attempt: int
    rank: int
    kinds: list[ResponseKind]
    correct: bool
    reward: float
    group: int | None
    advantage: float | None
    truncated: bool | None
    length: int
    logprob: float
    displacement: float | None
    trained: bool | None
    actions: list[tuple[int, int]]
    answers: list[tuple[int, int]]
    answer_source: AnswerSource | None
    logprobs: list[float]
    displacements: list[float] | None
    entropies: list[float] | None
    mismatches: list[float] | None
    advantages: list[float] | None
    token_ids: list[int] | None
    pieces: list[str] | None
    text: str | None


def response_item(run_id: str, stored: StoredResponse, *, attempt: int) -> ResponseItem:
    """Make a response's item; ``attempt`` counts from 1."""
    response = stored.response
    plain = {name: getattr(response, name) for name in response.__struct_fields__}
    arrays = {name: value.to_numpy().tolist() for name, value in plain.items() if isinstance(value, Array)}
    actions = arrays["actions"]
    spoken = sum(after - first for first, after in actions)
    is_cut = bool(response.truncated) or response.length > spoken
    answers, source = find_answers(actions, response.pieces, is_cut=is_cut)
    place = {
        "answers": answers,
        "answer_source": source,
        "id": str(hide(stored.number)),
        "run_id": run_id,
        "step": stored.step,
        "attempt": attempt,
        "rank": stored.rank,
    }
    return ResponseItem.model_validate(plain | arrays | place)


def response_numbers(stored: StoredResponse) -> int:
    """Return the approximate number of numbers in a response's item; a text counts by its length."""
    response = stored.response
    arrays = (getattr(response, name) for name in response.__struct_fields__)
    numbers = sum(len(value.to_numpy()) for value in arrays if isinstance(value, Array))
    return numbers + sum(map(len, response.pieces or ())) // 8 + len(response.text or "") // 8
