"""Sampled responses, and the explanation of an alert by them."""

from typing import TypedDict

__all__ = [
    "ActionChange",
    "Attribution",
    "Moved",
    "NotObserved",
    "RemedyItem",
    "Resembling",
    "ResponseItem",
    "ResponsePairs",
    "SampledAction",
    "Token",
]


class ResponseItem(TypedDict):
    """A sampled response of T tokens; the lists of numbers hold the tokens inside ``actions``, in order."""

    id: str
    step: int
    attempt: int
    rank: int
    kinds: list[str]
    correct: bool
    reward: float
    group: int | None
    advantage: float | None
    truncated: bool | None
    length: int
    logprob: float
    displacement: float | None
    trained: bool | None
    actions: list[list[int]]
    answers: list[list[int]]
    answer_source: str | None
    logprobs: list[float]
    displacements: list[float] | None
    entropies: list[float] | None
    mismatches: list[float] | None
    advantages: list[float] | None
    token_ids: list[int] | None
    pieces: list[str] | None
    text: str | None


class Moved(TypedDict):
    """A signal that had departed from its best level when an alert opened, and the step at which that began."""

    signal: str
    direction: str
    onset: list[int]
    baseline: float | None
    level: float | None
    deviations: float | None
    is_surely_later: bool


class ActionChange(TypedDict):
    """Likelihood of one action of correct responses."""

    action: int
    before: float
    at_alert: float
    change: float


class SampledAction(TypedDict):
    """Displacement of one action in sampled correct responses."""

    action: int
    mean: float
    tokens: int


class Token(TypedDict):
    """The share of the fall of the likelihood that one token id has."""

    token_id: int
    text: str | None
    count: int
    fall: float
    share: float


class Resembling(TypedDict):
    """An incorrect response beside the displaced correct one that it resembles."""

    response: str
    displaced: str
    shared_prefix: int
    prefix_share: float
    overlap: float
    resemblance: float


class ResponsePairs(TypedDict):
    """Displaced correct responses, each with the most similar incorrect response; ``responses`` holds both."""

    measure: str | None
    pairs: list[Resembling]
    responses: list[ResponseItem]


class RemedyItem(TypedDict):
    """A change that helps, and the source of this finding."""

    change: str
    how: str
    source: str


class NotObserved(TypedDict):
    """A part that could not be computed, and the data that it needs."""

    what: str
    needs: str


class Attribution(TypedDict):
    """The explanation of an alert; ``responses`` holds the responses that the other fields name by id."""

    moved: list[Moved]
    actions: list[ActionChange]
    crossed_step: int | None
    sampled_actions: list[SampledAction]
    measure: str | None
    displaced: list[str]
    tokens: list[Token]
    resembling: list[Resembling]
    responses: list[ResponseItem]
    remedies: list[RemedyItem]
    first_steps: str
    not_observed: list[NotObserved]
