"""Rules of the user's own."""

from typing import TypedDict

__all__ = ["DryRunItem", "RuleItem", "RunRuleItem"]


class RuleItem(TypedDict):
    """A rule; ``rule`` is its content, null if the collector cannot read it, and ``stated`` is the content in words."""

    id: str
    kind: str
    stated: str
    rule: dict[str, object] | None
    file_set: str | None
    version: int
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
    last_attempt: int | None
    last_step: int | None
    is_complete: bool
    episode_count: int
    episodes: list[dict[str, object]]
