"""Rules: what they state, what they have found on a run, and what they would have found."""

from typing import Any, Literal

from monitor_server.api.schemas.base import Schema
from monitor_server.rules.definition import Rule

__all__ = ["AppliedItem", "DryRunItem", "EpisodeItem", "RuleItem", "RunRuleItem"]

RuleState = Literal["waiting", "no_data", "ok", "pending", "firing"]


class RuleItem(Schema):
    """A rule; times are seconds since the epoch.

    ``rule`` is what PUT takes, ``stated`` the same in words, ``kind`` that of its alerts. ``file_set`` names the set of
    a file that states it; it is null of a rule that a person has made. ``rule`` is null where this version cannot read
    it, because a newer one has written it or the row is damaged; ``stated`` then says why. It is not evaluated, and can
    be replaced or deleted.
    """

    id: str
    kind: str
    stated: str
    rule: Rule | None
    file_set: str | None
    version: int
    created_at: float
    created_by: str
    updated_at: float
    updated_by: str


class AppliedItem(Schema):
    """What applying a file has changed: names of rules, and of changed rules the fields."""

    set: str
    created: list[str]
    changed: dict[str, list[str]]
    deleted: list[str]
    unchanged: int


class EpisodeItem(Schema):
    """One time that a rule would have fired; ``resolved_step`` is null where it still fires at the end."""

    fired_attempt: int
    fired_step: int
    fired_at: float
    resolved_step: int | None
    resolved_at: float | None
    summary: str
    evidence: dict[str, Any]


class DryRunItem(Schema):
    """When a rule would have fired on a recorded run.

    ``steps`` were read, of which ``observed`` had what the rule needs: the state is ``no_data`` where none had.
    ``episodes`` holds the first 100 of ``episode_count``. Where ``is_complete`` is false there are more steps than one
    dry run reads; the next can begin at ``last_step``.
    """

    run_id: str
    state: Literal["fired", "quiet", "no_data"]
    stated: str
    steps: int
    observed: int
    first_step: int | None
    last_step: int | None
    is_complete: bool
    episode_count: int
    episodes: list[EpisodeItem]


class RunRuleItem(Schema):
    """A rule that concerns a run, and its state at the newest step that it has seen.

    ``waiting``: it has seen no step since it was made or changed. ``no_data``: the newest step did not have what it
    needs. ``pending``: the condition holds, but not yet for as long as the rule demands. ``observed_step`` and
    ``observed_value`` are those of the newest value of its signal, ``measured`` is what was compared with the rule's
    value.
    """

    id: str
    name: str
    kind: str
    severity: Literal["warning", "critical"]
    stated: str
    state: RuleState
    step: int | None
    since_step: int | None
    observed_step: int | None
    observed_value: float | None
    measured: float | None
