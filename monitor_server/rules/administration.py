"""Makes, changes and deletes rules within what their author reaches, and records every change."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import Caller
from monitor_server.errors import InvalidField, RuleConflict, ScopeTooSmall, UnknownRule, UnknownRun
from monitor_server.rules.definition import MAX_ALL_RULES, MAX_COMPARISONS, MAX_RULES, ComparisonRule, Rule, read_rule
from monitor_server.rules.findings import describe_rule
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.audit_log import detail_of_run
from monitor_server.store.repositories.rules import StoredRule

__all__ = [
    "COLLECTORS_SET",
    "AppliedRules",
    "Author",
    "apply_rules",
    "create_rule",
    "delete_rule",
    "placed_rule",
    "replace_rule",
]


COLLECTORS_SET: Final = "collector"
"""The set of the rules that the file of the collector's settings states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who changes rules, what they call themselves, and when, in seconds since the epoch."""

    caller: Caller
    now: float
    by: str = ""

    @property
    def signature(self) -> str:
        """Who is recorded as the author."""
        return self.caller.signature(self.by)


@dataclass(slots=True, kw_only=True)
class AppliedRules:
    """What applying a file has changed: names of rules, and of changed rules the fields."""

    created: list[str] = field(default_factory=list)
    changed: dict[str, list[str]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0


def placed_rule(repositories: Repositories, rule: Rule, caller: Caller) -> Rule:
    """Return a rule with the project that it concerns: that of its run, or the one that the caller is confined to.

    Raises:
        ScopeTooSmall: If the caller does not reach the project.
        UnknownRun: If the caller reaches no such run, or the run to compare with is of another project.
        InvalidField: If run and project do not belong together.
    """
    project = rule.project or caller.project
    if rule.run_id is not None:
        found = repositories.runs.project(rule.run_id)
        if found is None or not caller.reaches(found):
            raise UnknownRun.by_id(rule.run_id)
        if rule.project not in (None, found):
            raise InvalidField(f"run {rule.run_id!r} belongs to another project than {rule.project!r}")
        project = found
    elif not caller.reaches(project):
        raise ScopeTooSmall(f"this key makes rules of the project {caller.project!r} only")
    if isinstance(rule, ComparisonRule) and repositories.runs.project(rule.other_run_id) != project:
        raise UnknownRun(f"other_run_id must be a run of the project {project!r}, got {rule.other_run_id!r}")
    return read_rule(_stated(rule) | {"project": project})


def create_rule(repositories: Repositories, rule: Rule, *, author: Author, file_set: str | None = None) -> StoredRule:
    """Make a rule in an open transaction.

    Raises:
        RuleConflict: If the name is taken, or there are as many rules or comparisons as there may be.
        ScopeTooSmall, UnknownRun, InvalidField: See `placed_rule`.
    """
    revision = repositories.rules.begin_change()
    return _create(repositories, placed_rule(repositories, rule, author.caller), revision, author, file_set)


def _create(
    repositories: Repositories, placed: Rule, revision: int, author: Author, file_set: str | None
) -> StoredRule:
    _refuse_taken_name(repositories, placed)
    _refuse_too_many(repositories, placed)
    stored = StoredRule(
        id=uuid.uuid4().hex[:16],
        name=placed.name,
        project=placed.project,
        run_id=placed.run_id,
        enabled=placed.enabled,
        definition=_stated(placed),
        file_set=file_set,
        version=revision,
        created_at=author.now,
        created_by=author.signature,
        updated_at=author.now,
        updated_by=author.signature,
    )
    repositories.rules.add(stored)
    repositories.rules.commit_change(revision)
    _record(repositories, author, "rule.create", stored, describe_rule(placed))
    return stored


def replace_rule(
    repositories: Repositories, rule_id: str, rule: Rule, *, author: Author, version: int | None = None
) -> StoredRule:
    """Change a rule in an open transaction; one that states the same already stays as it is.

    Args:
        repositories: Of the transaction.
        rule_id: The rule.
        rule: What it states from now on.
        author: Who changes it.
        version: The version that the author had read, or None to change whatever is there.

    Raises:
        UnknownRule: If the author reaches no such rule.
        RuleConflict: If a file states the rule, it has another version by now, or the new name is taken.
        ScopeTooSmall, UnknownRun, InvalidField: See `placed_rule`.
    """
    revision = repositories.rules.begin_change()
    found = _find(repositories, rule_id, author)
    if found.file_set is not None:
        raise RuleConflict(f"the file set {found.file_set!r} states the rule {found.name!r}; change it in the file")
    if version is not None and found.version != version:
        raise RuleConflict(
            f"the rule {found.name!r} was changed by {found.updated_by} since it was read; read it again, and change "
            "what it is now"
        )
    placed = placed_rule(repositories, rule, author.caller)
    return _replace(repositories, found, placed, revision, author)


def delete_rule(repositories: Repositories, rule_id: str, *, author: Author) -> StoredRule:
    """Delete a rule in an open transaction, and return what it was. Its alerts are resolved.

    Raises:
        UnknownRule: If the author reaches no such rule.
    """
    revision = repositories.rules.begin_change()
    found = _find(repositories, rule_id, author)
    _delete(repositories, found, revision, author)
    return found


def apply_rules(
    repositories: Repositories,
    file_set: str,
    wanted: Sequence[Rule],
    *,
    author: Author,
    is_of_settings: bool = False,
) -> AppliedRules:
    """Bring the rules of a set to what a file states, all or nothing: others of the set are deleted.

    Rules of other sets, and those that people have made, stay as they are. Applying the same again changes nothing.

    Args:
        repositories: An open transaction.
        file_set: The name of the set. The sets of a key of one project are its own.
        wanted: Every rule of the set.
        author: Who applies it.
        is_of_settings: Whether it is the file that the settings of the collector name, which alone has the set
            `COLLECTORS_SET`.

    Raises:
        RuleConflict: If the set is that of the collector's own file, a name is taken by a rule of another set or of a
            person, or there are too many.
        ScopeTooSmall, UnknownRun, InvalidField: See `placed_rule`.
    """
    if file_set == COLLECTORS_SET and not is_of_settings:
        raise RuleConflict(
            f"the set {COLLECTORS_SET!r} holds the rules of the file of RLVITALS_RULES_FILE; choose another name"
        )
    if author.caller.project is not None and len(wanted) > MAX_RULES:  # before each costs a look-up
        raise RuleConflict(f"at most {MAX_RULES} rules can belong to a project with its runs, got {len(wanted)}")
    revision = repositories.rules.begin_change()
    kept_set = file_set if author.caller.project is None else f"{author.caller.project}/{file_set}"
    placed = [placed_rule(repositories, rule, author.caller) for rule in wanted]
    places = {(rule.project, rule.run_id, rule.name) for rule in placed}
    if len(places) < len(placed):
        raise InvalidField("each rule of a file must have another name, or concern another project or run")
    result, held = AppliedRules(), {}
    for stored in repositories.rules.of_set(kept_set):
        if (stored.project, stored.run_id, stored.name) in places:
            held[stored.project, stored.run_id, stored.name] = stored
        else:
            _delete(repositories, stored, revision, author)
            result.deleted.append(stored.name)
    # A comparison that becomes another condition makes room for one that is new.
    for rule in sorted(placed, key=lambda rule: isinstance(rule, ComparisonRule)):
        before = held.get((rule.project, rule.run_id, rule.name))
        if before is None:
            _create(repositories, rule, revision, author, kept_set)
            result.created.append(rule.name)
        elif fields := _different_fields(before.definition, _stated(rule)):
            _replace(repositories, before, rule, revision, author)
            result.changed[rule.name] = fields
        else:
            result.unchanged += 1
    return result


def _replace(repositories: Repositories, found: StoredRule, placed: Rule, revision: int, author: Author) -> StoredRule:
    fields = _different_fields(found.definition, _stated(placed))
    if not fields:
        return found
    if (found.project, found.run_id, found.name) != (placed.project, placed.run_id, placed.name):
        _refuse_taken_name(repositories, placed)
    _refuse_too_many(repositories, placed, found)
    changed = replace(
        found,
        name=placed.name,
        project=placed.project,
        run_id=placed.run_id,
        enabled=placed.enabled,
        definition=_stated(placed),
        version=revision,
        updated_at=author.now,
        updated_by=author.signature,
    )
    repositories.rules.replace(changed)
    repositories.rules.commit_change(revision)
    _record(repositories, author, "rule.change", changed, f"{', '.join(fields)}: {describe_rule(placed)}")
    return changed


def _delete(repositories: Repositories, found: StoredRule, revision: int, author: Author) -> None:
    repositories.rules.remove(found.id)
    repositories.rules.commit_change(revision)
    _record(repositories, author, "rule.delete", found, str(found.definition.get("signal", "")))


def _find(repositories: Repositories, rule_id: str, author: Author) -> StoredRule:
    found = repositories.rules.find(rule_id)
    if found is None or not author.caller.reaches(found.project):
        raise UnknownRule.by_id(rule_id)
    return found


def _refuse_taken_name(repositories: Repositories, rule: Rule) -> None:
    taken = repositories.rules.find_name(rule.name, project=rule.project, run_id=rule.run_id)
    if taken is not None:
        of = "by a person" if taken.file_set is None else f"by the file set {taken.file_set!r}"
        raise RuleConflict(f"a rule named {rule.name!r} that concerns the same was made {of}; choose another name")


def _refuse_too_many(repositories: Repositories, rule: Rule, before: StoredRule | None = None) -> None:
    """Raise `RuleConflict` if there is no room for a new rule, or for one in the place of another."""
    stored, name = repositories.rules, f"rule {rule.name!r}"
    of = "concern every project" if rule.project is None else f"belong to the project {rule.project!r}"
    is_more = before is None or before.project != rule.project
    if before is None and stored.count_all() >= MAX_ALL_RULES:
        raise RuleConflict(f"{name}: a collector can have at most {MAX_ALL_RULES} rules; delete one first")
    if is_more and stored.count(rule.project) >= MAX_RULES:
        raise RuleConflict(f"{name}: at most {MAX_RULES} rules can {of}; delete one first")
    if not isinstance(rule, ComparisonRule):
        return
    others = [
        each
        for each in stored.of_project(rule.project)
        if each.definition.get("condition") == "comparison" and (before is None or each.id != before.id)
    ]
    if len(others) >= MAX_COMPARISONS:
        raise RuleConflict(
            f"{name}: at most {MAX_COMPARISONS} comparisons can {of}, because each reads another run at every step; "
            "delete one first"
        )


def _stated(rule: Rule) -> dict[str, Any]:
    """Return what a rule states as JSON values, without what is left out."""
    return rule.model_dump(mode="json", exclude_none=True)


def _different_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _record(repositories: Repositories, author: Author, action: str, rule: StoredRule, detail: str) -> None:
    words = f"{rule.name}: {detail}"
    record_change(
        repositories,
        author.caller,
        action,
        rule.id,
        now=author.now,
        project=rule.project,
        by=author.by,
        detail=words if rule.run_id is None else detail_of_run(rule.run_id, words),
    )
