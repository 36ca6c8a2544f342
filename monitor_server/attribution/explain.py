"""The explanation of one alert, assembled from the parts of this package."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monitor_server.attribution.action_likelihoods import ActionChange, action_changes, find_crossing
from monitor_server.attribution.displaced import (
    Measure,
    SampledAction,
    Token,
    displaced_responses,
    sampled_actions,
    tokens,
)
from monitor_server.attribution.onsets import Moved, Signal, find_lost, moved_signals
from monitor_server.attribution.remedies import Remedy, remedies
from monitor_server.attribution.resemblance import Resembling, resembling
from monitor_server.attribution.sampled_responses import Sampled, distinct
from monitor_server.detection.base_classes.held_findings import LONGEST_GAP

__all__ = ["Explanation", "NotObserved", "explain"]

MOST_RESPONSES = 5
MOST_TOKENS = 12
# The responses that carry an alert are sampled while it develops; if steps are short, not all steps are sampled.
SAMPLED_STEPS, STEPS_BEFORE = 8, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class NotObserved:
    """A part that could not be determined, and the data that it needs."""

    what: str
    needs: str


LIKELIHOOD, PAIRED, BY_ACTION, RESPONSES, DISPLACEMENT, TOKENS, GROUPS = (
    NotObserved(what=what, needs=needs)
    for what, needs in (
        ("likelihood of correct responses", "rollouts: log-probabilities, masks and rewards"),
        ("paired entropy change", "re-scoring the same contexts before and after an update"),
        ("likelihood by action", "rollouts with more than one action"),
        ("responses and tokens", "rollouts with token ids, and RLVITALS_RESPONSES above 0 in the trainer"),
        ("displacement of responses", "old_logprobs in the rollouts, and more than one update a rollout"),
        ("which tokens", "token_ids in the rollouts; a redaction that changes a text keeps them back"),
        ("which incorrect responses resemble them", "group_ids in the rollouts"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of an alert, as far as the data shows it.

    Attributes:
        moved: The signals that had departed, ordered by onset.
        actions: Change of each action's likelihood over correct responses, from signals.
        crossed_step: First step from which the first action stays less likely than the second, or None.
        sampled_actions: Displacement of each action over sampled correct responses.
        measure: The measure that ranks the responses: their displacement, or only their likelihood.
        displaced: The responses that rank first, the worst first.
        tokens: The token ids that carry the fall of ``displaced``.
        resembling: Incorrect responses that resemble them.
        remedies: Changes that help, each with its source.
        not_observed: The missing data.
    """

    moved: list[Moved]
    actions: list[ActionChange]
    crossed_step: int | None
    sampled_actions: list[SampledAction]
    measure: Measure | None
    displaced: list[Sampled]
    tokens: list[Token]
    resembling: list[Resembling]
    remedies: list[Remedy]
    not_observed: list[NotObserved]


def explain(*, kind: str, opened_step: int, signals: Mapping[str, Signal], responses: Sequence[Sampled]) -> Explanation:
    """Explain an alert.

    Args:
        kind: The alert's kind.
        opened_step: The step at which it opened; later data is not read.
        signals: Each signal's steps, ascending, and values.
        responses: Sampled responses. Of the 24 steps before the alert, the newest 8 with responses are read; if there
            are none, the newest earlier step with responses.
    """
    lost = find_lost(signals, opened_step=opened_step)
    signals = {name: signal for name, signal in signals.items() if name not in lost}
    moved = moved_signals(signals, opened_step=opened_step)
    onset = moved[0].onset[0] if moved else opened_step
    actions = action_changes(signals, onset_step=onset, opened_step=opened_step)
    before = [response for response in responses if response.step <= opened_step]
    newest = sorted({response.step for response in before})[-SAMPLED_STEPS:]
    recent = {step for step in newest if step > opened_step - STEPS_BEFORE} or set(newest[-1:])
    near = [response for response in before if response.step in recent]
    different = distinct(near)
    measure, leading = displaced_responses(different, most=MOST_RESPONSES)
    alike = resembling(leading, different, most=MOST_RESPONSES)
    first_leads = len(actions) > 1 and actions[0].change < min(0.0, actions[1].change)
    observed = {name for name, is_seen in (("resembling", bool(alike)), ("first action", first_leads)) if is_seen}
    return Explanation(
        moved=moved,
        actions=actions,
        crossed_step=find_crossing(signals, opened_step=opened_step),
        sampled_actions=sampled_actions(near),
        measure=measure,
        displaced=leading,
        tokens=tokens(leading, most=MOST_TOKENS),
        resembling=alike,
        remedies=remedies(kind, observed=frozenset(observed)),
        not_observed=_not_observed(signals, lost, near, measure, leading),
    )


def _describe_lost(names: Sequence[str]) -> NotObserved:
    return NotObserved(what=", ".join(names), needs=f"values in the newest {LONGEST_GAP} steps, as there were earlier")


def _not_observed(
    signals: Mapping[str, Signal],
    lost: Sequence[str],
    near: Sequence[Sampled],
    measure: Measure | None,
    leading: Sequence[Sampled],
) -> list[NotObserved]:
    """List the missing data, the most informative first; a part that was observed without a result is not missing."""
    seen = {name for name, (steps, _) in signals.items() if len(steps)}
    gaps = (
        ("likelihood/correct" not in seen, LIKELIHOOD),
        ("entropy/paired_delta" not in seen, PAIRED),
        ("likelihood/action1" not in seen, BY_ACTION),
        (not near, RESPONSES),
        (measure == "likelihood", DISPLACEMENT),
        (any(response.token_ids is None for response in leading), TOKENS),
        (any(response.group is None for response in leading), GROUPS),
        (bool(lost), _describe_lost(lost)),
    )
    return [gap for is_missing, gap in gaps if is_missing]
