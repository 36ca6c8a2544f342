"""Rules: their fields, their states on a run, and the results of dry runs."""

from typing import Any, Literal

from monitor_server.api.schemas.base import Schema, Time
from monitor_server.rules.definition import Rule

__all__ = ["AppliedItem", "DryRunItem", "EpisodeItem", "RuleItem", "RunRuleItem"]

RuleState = Literal["waiting", "no_data", "undecided", "ok", "pending", "firing"]


class RuleItem(Schema):
    """A rule; times are seconds since the epoch.

    ``rule`` is in the form for PUT, ``stated`` is its description in words, ``kind`` is the kind of its alerts.
    ``file_set`` names the set of the file that contains it; it is null for a rule that a person has made. ``rule`` is
    null if this version cannot read it, because a newer one has written it or the row is damaged; ``stated`` then
    states the reason. Such a rule is not evaluated, and can be replaced or deleted.
    """

    id: str
    kind: str
    stated: str
    rule: Rule | None
    file_set: str | None
    version: int
    created_at: Time
    created_by: str
    updated_at: Time
    updated_by: str


class AppliedItem(Schema):
    """The changes by a file: names of rules, and the changed fields of changed rules."""

    set: str
    created: list[str]
    changed: dict[str, list[str]]
    deleted: list[str]
    unchanged: int


class EpisodeItem(Schema):
    """One time at which a rule would have fired; ``resolved_step`` is null if it still fires at the end."""

    fired_attempt: int
    fired_step: int
    fired_at: Time
    resolved_step: int | None
    resolved_at: Time | None
    summary: str
    evidence: dict[str, Any]


class DryRunItem(Schema):
    """The times at which a rule would have fired on a recorded run.

    ``steps`` steps were read, and ``observed`` of them had the data that the rule needs: the state is ``no_data`` if
    none had. ``episodes`` contains the first 100 of ``episode_count``. If ``is_complete`` is false, there are more
    steps than one dry run reads: the steps of ``last_attempt`` after ``last_step``, and those of later attempts, were
    not read. Both are null if none was read.
    """

    run_id: str
    state: Literal["fired", "quiet", "no_data"]
    stated: str
    steps: int
    observed: int
    first_step: int | None
    last_attempt: int | None
    last_step: int | None
    is_complete: bool
    episode_count: int
    episodes: list[EpisodeItem]


class RunRuleItem(Schema):
    """A rule that applies to a run, and its state at the newest step that it has processed.

    ``waiting``: it has processed no step since it was created or changed. ``no_data``: the newest step did not have the
    data that it needs. ``undecided``: the number at the newest step is NaN, so that the condition neither holds nor
    does not hold. ``pending``: the condition holds, but for a shorter time than the rule requires.
    ``observed_step`` and ``observed_value`` belong to the newest value of its signal; ``measured`` is the number that
    was compared with the rule's value.
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
