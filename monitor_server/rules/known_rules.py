"""The rules in force, in memory: they are read from the database again when its revision of the rules has changed."""

import logging
import threading
from dataclasses import dataclass, field

from monitor_server.errors import InvalidField
from monitor_server.rules.definition import Rule, read_rule
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.rules import StoredRule

__all__ = ["KnownRule", "KnownRules", "RuleSet", "restore_rule"]

log = logging.getLogger(__name__)

MAX_REMEMBERED_RUNS = 4_096


@dataclass(frozen=True, slots=True)
class KnownRule:
    """A rule that this version understands."""

    id: str
    version: int
    rule: Rule


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules, switched on or off, as of one revision."""

    revision: int = 0
    rules: tuple[KnownRule, ...] = ()
    _by_run: dict[str, tuple[KnownRule, ...]] = field(default_factory=dict)

    @property
    def remembered_runs(self) -> int:
        """The number of runs whose rules are already selected, at most `MAX_REMEMBERED_RUNS`."""
        return len(self._by_run)

    def of_run(self, run_id: str, project: str) -> tuple[KnownRule, ...]:
        """Return the rules that apply to a run; of rules with one name, only the most specific.

        A rule of the run comes before one of its project, and that before one of all projects. If the most specific one
        is switched off, none applies, so that a general rule can be switched off for a project or a run.
        """
        if not self.rules:
            return ()
        found = self._by_run.get(run_id)
        if found is None:
            if len(self._by_run) >= MAX_REMEMBERED_RUNS:
                self._by_run.clear()
            found = self._by_run[run_id] = self._select(run_id, project)
        return found

    def _select(self, run_id: str, project: str) -> tuple[KnownRule, ...]:
        chosen: dict[str, KnownRule] = {}
        for each in sorted(self.rules, key=_generality, reverse=True):
            rule = each.rule
            is_of_run = rule.run_id in (None, run_id) and rule.project in (None, project)
            if is_of_run and getattr(rule, "other_run_id", None) != run_id:
                chosen[rule.name] = each
        return tuple(each for each in chosen.values() if each.rule.enabled)


class KnownRules:
    """Holds the newest set of rules, for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current = RuleSet()

    @property
    def current(self) -> RuleSet:
        """The rules that were read last."""
        return self._current

    def refresh(self, repositories: Repositories) -> None:
        """Read the rules if some have changed; a rule that this version does not understand is left out."""
        revision = repositories.rules.revision()
        if revision == self._current.revision:
            return
        rules = []
        for stored in repositories.rules.all():
            try:
                rules.append(KnownRule(stored.id, stored.version, restore_rule(stored)))
            except InvalidField as error:
                log.error("rule %s cannot be used and is left out: %s", stored.id, error)  # noqa: TRY400
        with self._lock:
            if revision > self._current.revision:
                self._current = RuleSet(revision, tuple(rules))


def restore_rule(stored: StoredRule) -> Rule:
    """Return the definition of a stored rule.

    Raises:
        InvalidField: If a newer version has written it, or the row is damaged.
    """
    return read_rule(stored.definition)


def _generality(each: KnownRule) -> int:
    return (each.rule.run_id is None) + (each.rule.project is None)
