"""The types of the items that the collector's HTTP API returns, and how urgent they are.

Each type has the name that the API's OpenAPI document gives it; a test compares the two. Types and pure functions only:
`dashboard.api_client` sends the requests.
"""

from collections.abc import Iterable
from typing import Final, NotRequired, TypedDict

__all__ = [
    "MAX_RUNS",
    "RULE_PREFIX",
    "SEVERITY_ORDER",
    "ActionItem",
    "AlertItem",
    "Attribution",
    "AuditItem",
    "ChannelItem",
    "CheckedFile",
    "ExpectedRangeItem",
    "ExpectedRanges",
    "ForecastItem",
    "ForkItem",
    "HistoryItem",
    "JudgementItem",
    "KeyItem",
    "MarkItem",
    "Moved",
    "PhaseItem",
    "ResponseItem",
    "RetentionStatus",
    "RunDetail",
    "RunItem",
    "SeriesItem",
    "Sparkline",
    "WarrantyItem",
    "alerts_of",
    "by_trouble",
    "firing",
]

MAX_RUNS: Final = 5000  # the newest runs, which pages read
RULE_PREFIX: Final = "rule:"  # with which the kind of an alert begins that a rule has opened

SEVERITY_ORDER: Final = {"critical": 0, "warning": 1, "info": 2}
STATUS_ORDER: Final = {"lost": 0, "stalled": 0, "running": 1, "stopped": 2, "finished": 3}
PHASE_ORDER: Final = {"collapsed": 0, "acceleration": 1, "decay": 2}


class Sparkline(TypedDict):
    """The last values of one signal, oldest first; non-finite floats where the signal was not finite."""

    signal: str
    values: list[float]


class RunItem(TypedDict, total=False):
    """A run, as in a list of runs; ``alerts`` counts the firing alerts."""

    id: str
    project: str
    name: str
    status: str
    phase: str
    attempt: int
    last_step: int | None
    last_seen: float | None
    started_at: float | None
    world_size: int
    capability: str
    source: str
    alerts: int
    sparkline: Sparkline | None
    step_seconds: float | None
    phase_from_step: int | None
    title: str | None
    tags: list[str]
    archived: bool


class RunDetail(RunItem, total=False):
    """A run, with what is returned only for a single run."""

    config: dict[str, object] | None
    signals: list[str]
    notes: str | None


class SeriesItem(TypedDict):
    """One signal over steps, the newest attempt's value at each step; ``times`` (Unix seconds) if asked for."""

    signal: str
    steps: list[int]
    values: list[float]
    times: NotRequired[list[float] | None]


class PhaseItem(TypedDict):
    """A phase of a run; ``to_step`` is None for the current phase."""

    phase: str
    from_step: int
    to_step: int | None


class AlertItem(TypedDict, total=False):
    """An alert, with its arithmetic in ``evidence``."""

    id: str
    run_id: str
    run: str
    project: str
    kind: str
    severity: str
    state: str
    stage: str
    silenced_until: float | None
    phase: str
    opened_step: int
    severity_step: int
    last_step: int | None
    resolved_step: int | None
    opened_at: float
    acknowledged_at: float | None
    acknowledged_by: str | None
    note: str | None
    summary: str
    evidence: dict[str, object]


class HistoryItem(TypedDict):
    """Something that happened to an alert; ``by`` is None where the collector caused it."""

    alert_id: str
    at: float
    change: str
    stage: str
    step: int | None
    by: str | None
    why: str


class ExpectedRangeItem(TypedDict):
    """Where values of healthy runs were: from ``steps[i]`` to ``steps[i + 1]``, between ``low[i]`` and ``high[i]``."""

    signal: str
    steps: list[int]
    low: list[float]
    high: list[float]
    runs: int


class ExpectedRanges(TypedDict):
    """The ranges that are known, and the calibration that has learnt them."""

    calibration: str
    items: list[ExpectedRangeItem]


class JudgementItem(TypedDict):
    """Whether an alarm was right, as a person says after the run; ``failed_at`` is the step of the failure."""

    alert_id: str
    kind: str
    is_right: bool
    failed_at: int | None
    by: str
    note: str


class WarrantyItem(TypedDict):
    """What a budget of false pages allows a run, and what the run has spent."""

    promise: str
    is_longer: bool
    pages_allowed: float
    pages_opened: int
    steps_held_back: int


class MarkItem(TypedDict):
    """What happened to a run at a step: an attempt, a rewind, an action, an acknowledgement or a comment."""

    kind: str
    step: int
    time: float
    text: str
    by: str | None


class ForkItem(TypedDict):
    """A fork that a trainer has tried; ``…_gain`` is the difference to the unchanged one: low, mean, high."""

    name: str
    steps: int
    is_winner: bool
    has_diverged: bool
    reward: float
    reward_gain: list[float]
    displacement: float
    displacement_gain: list[float]
    entropy: float


class ActionItem(TypedDict):
    """What a trainer did about an alert, would have done (``dry_run``), or could not do (``detail`` says why)."""

    action: str
    outcome: str
    alert_id: str
    reason: str
    detail: str
    attempt: int
    step: int
    rank: int
    time: float
    forks: list[ForkItem]


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
    token_ids: list[int] | None
    pieces: list[str] | None
    text: str | None


class Moved(TypedDict):
    """A signal that had departed when an alert opened, and when it began to."""

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
    """Displaced correct responses, each with the incorrect one that is most alike; ``responses`` holds both."""

    measure: str | None
    pairs: list[Resembling]
    responses: list[ResponseItem]


class ViewItem(TypedDict):
    """A saved view of the fleet; ``query`` holds its settings as they stand in an address."""

    id: str
    name: str
    query: str
    saved_by: str


class RemedyItem(TypedDict):
    """A change that helps, and the source that found so."""

    change: str
    how: str
    source: str


class NotObserved(TypedDict):
    """A part that could not be computed, and the data that it needs."""

    what: str
    needs: str


class Attribution(TypedDict):
    """What explains an alert; ``responses`` holds the responses that the other fields name by id."""

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
    not_observed: list[NotObserved]


class HorizonItem(TypedDict):
    """The probability of a collapse within a number of recorded steps."""

    within: int
    probability: float
    base_rate: float


class DriverItem(TypedDict):
    """One piece of evidence that raises the probability."""

    name: str
    description: str
    odds_ratio: float


class ForecastItem(TypedDict):
    """The forecast of a run after its newest step; without ``drivers`` it is the base rate."""

    step: int
    horizons: list[HorizonItem]
    drivers: list[DriverItem]
    model: str
    fitted_on: str


class KeyItem(TypedDict):
    """A key, without the key itself; times are seconds since the epoch."""

    id: str
    name: str
    scope: str
    project: str | None
    state: str
    created_at: float
    created_by: str
    last_used_at: float | None
    expires_at: float | None


class RuleItem(TypedDict):
    """A rule; ``rule`` is what it states, null where the collector cannot read it, and ``stated`` the same in words."""

    id: str
    kind: str
    stated: str
    rule: dict[str, object] | None
    file_set: str | None
    created_by: str


class RunRuleItem(TypedDict):
    """A rule that concerns a run, and its state at the newest step that it has seen."""

    name: str
    kind: str
    severity: str
    stated: str
    state: str
    step: int | None
    since_step: int | None
    observed_step: int | None
    observed_value: float | None


class DryRunItem(TypedDict):
    """When a rule would have fired on a recorded run."""

    state: str
    stated: str
    steps: int
    observed: int
    last_step: int | None
    is_complete: bool
    episode_count: int
    episodes: list[dict[str, object]]


class ChannelItem(TypedDict):
    """A channel of notifications, and how it goes."""

    name: str
    type: str
    address: str
    waiting: int
    is_failing: bool
    last_error: str | None
    last_sent_at: float | None


class CheckedFile(TypedDict):
    """What must be changed in the text of a file of channels and routes, or how many of them it states."""

    problems: list[str]
    channels: int
    routes: int
    variables: list[str]
    files: list[str]


class RetentionStatus(TypedDict):
    """How long the collector keeps data; None keeps it for good."""

    record_steps: int | None
    record_days: float | None
    response_steps: int
    response_days: float | None
    step_days: float | None
    thinned_steps: int
    run_days: float | None
    audit_days: float


class AuditItem(TypedDict):
    """One change that somebody made."""

    at: float
    by: str
    project: str | None
    action: str
    target: str
    detail: str


def firing(alerts: Iterable[AlertItem]) -> list[AlertItem]:
    """Return the firing alerts, most severe first, then newest first."""
    held = [alert for alert in alerts if alert["state"] == "firing"]
    return sorted(held, key=lambda alert: (SEVERITY_ORDER.get(alert["severity"], 3), -alert["opened_step"]))


def alerts_of(alerts: Iterable[AlertItem]) -> dict[str, list[AlertItem]]:
    """Group alerts by the id of their run, in the given order."""
    grouped: dict[str, list[AlertItem]] = {}
    for alert in alerts:
        grouped.setdefault(alert["run_id"], []).append(alert)
    return grouped


def by_trouble(runs: Iterable[RunItem], alerts: Iterable[AlertItem]) -> list[RunItem]:
    """Sort runs, most urgent first: severest firing alert, then silence, then phase, then the newest record."""
    gravest = {run_id: SEVERITY_ORDER.get(held[0]["severity"], 3) for run_id, held in alerts_of(firing(alerts)).items()}

    def trouble(run: RunItem) -> tuple[float, ...]:
        ended = run["status"] in {"finished", "stopped"}
        return (
            ended,
            gravest.get(run["id"], 4),
            STATUS_ORDER.get(run["status"], 1),
            PHASE_ORDER.get(run["phase"], 3),
            -(run.get("last_seen") or 0.0),
        )

    return sorted(runs, key=trouble)
