"""Changes of rules in one transaction: checked against the existing rules, recorded, and written together."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from monitor_server.access.audit.entries import change_entry
from monitor_server.access.callers import Caller
from monitor_server.errors import RuleConflict
from monitor_server.rules.definition import MAX_ALL_RULES, MAX_COMPARISONS, MAX_RULES, ComparisonRule, Rule
from monitor_server.rules.findings import describe_rule
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.audit_log import AuditEntry, detail_of_run
from monitor_server.store.repositories.rules import StoredRule

__all__ = ["Author", "RuleChanges", "different_fields", "encode_rule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The author of a change of rules, the name that the author gives, and the time in seconds since the epoch."""

    caller: Caller
    now: float
    by: str = ""

    @property
    def signature(self) -> str:
        """The name that is recorded as the author."""
        return self.caller.signature(self.by)


class RuleChanges:
    """Collects changes, and writes all of them or none. Nobody else can change rules until the transaction ends.

    A file may change a thousand rules. The existing rules are read once for each project and kept up to date here, so
    that the number of statements does not grow with the number of rules.

    Args:
        repositories: An open transaction.
        author: The author of the changes.
    """

    def __init__(self, repositories: Repositories, author: Author) -> None:
        self._repositories = repositories
        self._author = author
        self._revision = repositories.rules.begin_change()
        self._total = repositories.rules.count_all()
        self._known: dict[str | None, dict[str, StoredRule]] = {}
        self._created: list[StoredRule] = []
        self._replaced: list[StoredRule] = []
        self._deleted: list[str] = []
        self._entries: list[AuditEntry] = []

    def create(self, placed: Rule, file_set: str | None = None) -> StoredRule:
        """Create a rule.

        Raises:
            RuleConflict: If the name is taken, or the number of rules or comparisons has reached its limit.
        """
        self._refuse_taken_name(placed)
        if self._total >= MAX_ALL_RULES:
            raise RuleConflict(
                f"rule {placed.name!r}: a collector can have at most {MAX_ALL_RULES} rules; delete one first"
            )
        self._refuse_too_many(placed)
        author = self._author
        stored = StoredRule(
            id=uuid.uuid4().hex[:16],
            name=placed.name,
            project=placed.project,
            run_id=placed.run_id,
            enabled=placed.enabled,
            definition=encode_rule(placed),
            file_set=file_set,
            version=self._revision,
            created_at=author.now,
            created_by=author.signature,
            updated_at=author.now,
            updated_by=author.signature,
        )
        self._total += 1
        self._of_project(stored.project)[stored.id] = stored
        self._created.append(stored)
        self._record("rule.create", stored, describe_rule(placed))
        return stored

    def replace(self, found: StoredRule, placed: Rule) -> StoredRule:
        """Change a rule; a rule with an equal definition stays as it is.

        Raises:
            RuleConflict: If the new name is taken, or the number of rules or comparisons has reached its limit.
        """
        fields = different_fields(found.definition, encode_rule(placed))
        if not fields:
            return found
        if (found.project, found.run_id, found.name) != (placed.project, placed.run_id, placed.name):
            self._refuse_taken_name(placed)
        self._refuse_too_many(placed, found)
        changed = replace(
            found,
            name=placed.name,
            project=placed.project,
            run_id=placed.run_id,
            enabled=placed.enabled,
            definition=encode_rule(placed),
            version=self._revision,
            updated_at=self._author.now,
            updated_by=self._author.signature,
        )
        self._of_project(found.project).pop(found.id, None)
        self._of_project(changed.project)[changed.id] = changed
        self._replaced.append(changed)
        self._record("rule.change", changed, f"{', '.join(fields)}: {describe_rule(placed)}")
        return changed

    def delete(self, found: StoredRule) -> None:
        """Delete a rule. Its alerts are resolved."""
        self._total -= 1
        self._of_project(found.project).pop(found.id, None)
        self._deleted.append(found.id)
        self._record("rule.delete", found, str(found.definition.get("signal", "")))

    def write(self) -> None:
        """Write the changes, with an entry of the audit log for each. Without changes nothing is written."""
        if not self._entries:
            return
        rules = self._repositories.rules
        if self._deleted:
            rules.remove(self._deleted)
        if self._replaced:
            rules.replace(self._replaced)
        if self._created:
            rules.add(self._created)
        rules.commit_change(self._revision)
        self._repositories.audit_log.add(self._entries)

    def _of_project(self, project: str | None) -> dict[str, StoredRule]:
        """Return the rules of a project with its runs, or those that apply to every project, by id."""
        if project not in self._known:
            self._known[project] = {each.id: each for each in self._repositories.rules.of_project(project)}
        return self._known[project]

    def _refuse_taken_name(self, rule: Rule) -> None:
        place = (rule.run_id, rule.name)
        for taken in self._of_project(rule.project).values():
            if (taken.run_id, taken.name) == place:
                of = "by a person" if taken.file_set is None else f"by the file set {taken.file_set!r}"
                raise RuleConflict(
                    f"a rule named {rule.name!r} for the same project and run was made {of}; choose another name"
                )

    def _refuse_too_many(self, rule: Rule, before: StoredRule | None = None) -> None:
        """Raise `RuleConflict` if the project has no room for a rule, either a new one or a replacement."""
        others = [each for each in self._of_project(rule.project).values() if before is None or each.id != before.id]
        of = "concern every project" if rule.project is None else f"belong to the project {rule.project!r}"
        is_more = before is None or before.project != rule.project
        if is_more and len(others) >= MAX_RULES:
            raise RuleConflict(f"rule {rule.name!r}: at most {MAX_RULES} rules can {of}; delete one first")
        comparisons = [each for each in others if each.definition.get("condition") == "comparison"]
        if isinstance(rule, ComparisonRule) and len(comparisons) >= MAX_COMPARISONS:
            raise RuleConflict(
                f"rule {rule.name!r}: at most {MAX_COMPARISONS} comparisons can {of}, because each reads another run "
                "at every step; delete one first"
            )

    def _record(self, action: str, rule: StoredRule, detail: str) -> None:
        words, author = f"{rule.name}: {detail}", self._author
        self._entries.append(
            change_entry(
                author.caller,
                action,
                rule.id,
                now=author.now,
                project=rule.project,
                by=author.by,
                detail=words if rule.run_id is None else detail_of_run(rule.run_id, words),
            )
        )


def encode_rule(rule: Rule) -> dict[str, Any]:
    """Return the fields of a rule as JSON values, without those that are left out."""
    return rule.model_dump(mode="json", exclude_none=True)


def different_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields in which two rules differ, in order."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
