"""The user's own rules, and the state of each run's rules."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Float, bindparam, delete, func, insert, select, union, update

from monitor_server.detection.protocol import RULE_PREFIX
from monitor_server.store.encoding.stored_json import read_object
from monitor_server.store.tables import alerts, rule_revisions, rule_states, rules, runs

__all__ = ["NO_REVISION", "Rules", "SavedRuleStates", "StoredRule"]

NO_REVISION: Final = -1
"""The revision of a state without rules."""

_REVISION = select(rule_revisions.c.revision)
_REPLACE = update(rules).where(rules.c.id == bindparam("rule"))
_REMOVE = delete(rules).where(rules.c.id == bindparam("rule"))
_LOAD_STATES = select(rule_states.c.rules_revision, rule_states.c.due_at, rule_states.c.state).where(
    rule_states.c.run_id == bindparam("run")
)
_IS_OLDER = rule_states.c.rules_revision < bindparam("revision")
_DUE = union(
    select(rule_states.c.run_id).where(rule_states.c.due_at <= bindparam("now", type_=Float)),
    select(rule_states.c.run_id)
    .join(runs, runs.c.id == rule_states.c.run_id)
    .where(_IS_OLDER, ~runs.c.is_settled, runs.c.ended.is_(None)),
)
_OLDER_WITH_ALERTS = (
    select(rule_states.c.run_id)
    .join(alerts, alerts.c.run_id == rule_states.c.run_id)
    .where(_IS_OLDER, alerts.c.state != "resolved", alerts.c.kind.startswith(RULE_PREFIX))
    .distinct()
)
_SAVE_STATES = update(rule_states).where(rule_states.c.run_id == bindparam("run"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule:
    """A rule as it is stored.

    Attributes:
        definition: Its fields as JSON values, including name, project, run and ``enabled``.
        file_set: The set of rules of the file that contains it; None if a person has made it.
        version: The revision of the rules that changed it last.
    """

    id: str
    name: str
    project: str | None
    run_id: str | None
    enabled: bool
    definition: Mapping[str, Any]
    file_set: str | None
    version: int
    created_at: float
    created_by: str
    updated_at: float
    updated_by: str

    @property
    def scope(self) -> str:
        """The projects and runs to which the rule applies, as one text."""
        return _scope(self.project, self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRuleStates:
    """The state of a run's rules. If no rule applies to the run, it is empty, which removes the row."""

    rules_revision: int
    due_at: float | None
    state: bytes


class Rules:
    """Reads and writes rules, and the states of the rules of runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def revision(self) -> int:
        """Return the number of the newest change of any rule; 0 before the first."""
        return int(self._connection.execute(_REVISION).scalar() or 0)

    def begin_change(self) -> int:
        """Return the revision that a change will have; other changes of rules wait until the transaction ends.

        `commit_change` increases the revision itself. Every run's rules are evaluated again after that.
        """
        return int(self._connection.execute(_REVISION.with_for_update()).scalar() or 0) + 1

    def commit_change(self, revision: int) -> None:
        """Set the revision to the one that `begin_change` has returned, because rules have changed."""
        self._connection.execute(update(rule_revisions).values(revision=revision))

    def all(self) -> list[StoredRule]:
        """Return all rules, switched on or off, in the order of their creation."""
        query = select(rules).order_by(rules.c.number)
        return [_rule(row) for row in self._connection.execute(query).mappings()]

    def compared_runs(self) -> dict[str, list[str]]:
        """Return the runs with which rules that are switched on compare, and the names of these rules by run."""
        found: dict[str, list[str]] = {}
        for each in self.all():
            other = each.definition.get("other_run_id")
            if each.enabled and isinstance(other, str):
                found.setdefault(other, []).append(each.name)
        return found

    def find(self, rule_id: str) -> StoredRule | None:
        """Return one rule, or None."""
        row = self._connection.execute(select(rules).where(rules.c.id == rule_id)).mappings().one_or_none()
        return None if row is None else _rule(row)

    def exist_of_run(self, run_id: str) -> bool:
        """Whether a run has rules of its own."""
        query = select(rules.c.number).where(rules.c.run_id == run_id).limit(1)
        return self._connection.execute(query).first() is not None

    def count_all(self) -> int:
        """Return the number of rules."""
        return int(self._connection.execute(select(func.count()).select_from(rules)).scalar_one())

    def of_project(self, project: str | None) -> list[StoredRule]:
        """Return the rules of a project with its runs, or those that apply to every project."""
        query = select(rules).where(rules.c.project.is_not_distinct_from(project)).order_by(rules.c.number)
        return [_rule(row) for row in self._connection.execute(query).mappings()]

    def of_set(self, file_set: str) -> list[StoredRule]:
        """Return the rules of a set of a file."""
        query = select(rules).where(rules.c.file_set == file_set).order_by(rules.c.number)
        return [_rule(row) for row in self._connection.execute(query).mappings()]

    def page(
        self, *, limit: int, before: int | None = None, project: str | None = None, run_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Return rules with their numbers, the newest first, before the rule ``before``.

        Args:
            limit: The largest number of rules.
            before: Only rules with a lower number.
            project: Only rules of this project and of its runs.
            run_id: Only rules of this run.
        """
        query = select(rules).order_by(rules.c.number.desc()).limit(limit)
        for column, wanted in ((rules.c.project, project), (rules.c.run_id, run_id)):
            if wanted is not None:
                query = query.where(column == wanted)
        if before is not None:
            query = query.where(rules.c.number < before)
        rows = self._connection.execute(query).mappings()
        return [{"number": row["number"], "rule": _rule(row)} for row in rows]

    def add(self, new: Sequence[StoredRule]) -> None:
        """Write new rules, at least one."""
        self._connection.execute(insert(rules), [_values(rule) for rule in new])

    def replace(self, changed: Sequence[StoredRule]) -> None:
        """Write rules, at least one, and replace those with their ids."""
        self._connection.execute(_REPLACE, [_values(rule) | {"rule": rule.id} for rule in changed])

    def remove(self, rule_ids: Sequence[str]) -> None:
        """Remove rules, at least one."""
        self._connection.execute(_REMOVE, [{"rule": rule_id} for rule_id in rule_ids])

    def load_states(self, run_id: str) -> SavedRuleStates | None:
        """Return the state of a run's rules, or None if no rule has processed a step of it."""
        row = self._connection.execute(_LOAD_STATES, {"run": run_id}).one_or_none()
        if row is None:
            return None
        return SavedRuleStates(rules_revision=row.rules_revision, due_at=row.due_at, state=row.state)

    def save_states(self, run_id: str, saved: SavedRuleStates, *, is_first: bool) -> None:
        """Write the state of a run's rules; ``is_first`` if there was none. An empty one is removed."""
        row = {"rules_revision": saved.rules_revision, "due_at": saved.due_at, "state": saved.state}
        if not saved.state:
            self._connection.execute(delete(rule_states).where(rule_states.c.run_id == run_id))
        elif is_first:
            self._connection.execute(insert(rule_states), row | {"run_id": run_id})
        else:
            self._connection.execute(_SAVE_STATES, row | {"run": run_id})

    def reset_states(self, run_id: str) -> None:
        """Restart the rules of a run. The row stays, so that the run is processed once more."""
        values = {"rules_revision": NO_REVISION, "due_at": None, "state": b""}
        self._connection.execute(update(rule_states).where(rule_states.c.run_id == run_id).values(values))

    def limit_times(self, now: float) -> None:
        """Let the clock look ``now`` at the rules that wait for a later time; they count from ``now`` at the latest."""
        self._connection.execute(update(rule_states).where(rule_states.c.due_at > now), {"due_at": now})

    def due_runs(self, *, now: float, revision: int) -> list[str]:
        """Return the runs whose rules have reached a time, or which go on with the state of older rules.

        For a run that has ended, an older state is left until the next step; see `older_runs_with_alerts`.
        """
        return list(self._connection.execute(_DUE, {"now": now, "revision": revision}).scalars())

    def older_runs_with_alerts(self, *, revision: int) -> list[str]:
        """Return the runs with an open alert of a rule, whose state belongs to older rules. Reads all open alerts."""
        return list(self._connection.execute(_OLDER_WITH_ALERTS, {"revision": revision}).scalars())


def _scope(project: str | None, run_id: str | None) -> str:
    if run_id is not None:
        return f"run:{run_id}"
    return "all" if project is None else f"project:{project}"


def _values(rule: StoredRule) -> dict[str, Any]:
    names = [name for name in StoredRule.__slots__ if name != "definition"]
    values = {name: getattr(rule, name) for name in names}
    return values | {"scope": rule.scope, "definition": json.dumps(rule.definition).encode()}


def _rule(row: Mapping[Any, Any]) -> StoredRule:
    fields = {name: row[name] for name in StoredRule.__slots__}
    return StoredRule(**fields | {"definition": read_object(row["definition"])})
