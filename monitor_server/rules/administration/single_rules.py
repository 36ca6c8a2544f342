"""Creates, changes and deletes single rules in the projects that their author may access."""

from monitor_server.access.callers import Caller
from monitor_server.errors import InvalidField, RuleConflict, ScopeTooSmall, UnknownRule, UnknownRun
from monitor_server.rules.administration.changes import Author, RuleChanges, encode_rule
from monitor_server.rules.definition import ComparisonRule, Rule, read_rule
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.rules import StoredRule

__all__ = ["create_rule", "delete_rule", "place_rule", "replace_rule"]


def place_rule(repositories: Repositories, rule: Rule, caller: Caller) -> Rule:
    """Return a rule with its project: the project of its run, or the one to which the caller is restricted.

    Raises:
        ScopeTooSmall: If the caller may not access the project.
        UnknownRun: If the caller can see no such run, or the run to compare with belongs to another project.
        InvalidField: If the run does not belong to the project.
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
    return read_rule(encode_rule(rule) | {"project": project})


def create_rule(repositories: Repositories, rule: Rule, *, author: Author) -> StoredRule:
    """Create a rule in an open transaction.

    Raises:
        RuleConflict: If the name is taken, or the number of rules or comparisons has reached its limit.
        ScopeTooSmall, UnknownRun, InvalidField: See `place_rule`.
    """
    changes = RuleChanges(repositories, author)
    stored = changes.create(place_rule(repositories, rule, author.caller))
    changes.write()
    return stored


def replace_rule(
    repositories: Repositories, rule_id: str, rule: Rule, *, author: Author, version: int | None = None
) -> StoredRule:
    """Change a rule in an open transaction; a rule with an equal definition stays as it is.

    Args:
        repositories: Of the transaction.
        rule_id: The rule.
        rule: Its new definition.
        author: The author of the change.
        version: The version that the author had read, or None to change any version.

    Raises:
        UnknownRule: If the author may access no such rule.
        RuleConflict: If the rule comes from a file, it has a newer version, the new name is taken, or the number of
            rules or comparisons has reached its limit.
        ScopeTooSmall, UnknownRun, InvalidField: See `place_rule`.
    """
    changes = RuleChanges(repositories, author)
    found = _find(repositories, rule_id, author)
    if found.file_set is not None:
        raise RuleConflict(f"the file set {found.file_set!r} states the rule {found.name!r}; change it in the file")
    if version is not None and found.version != version:
        raise RuleConflict(
            f"the rule {found.name!r} was changed by {found.updated_by} since it was read; read it again, and change "
            "the newest version"
        )
    changed = changes.replace(found, place_rule(repositories, rule, author.caller))
    changes.write()
    return changed


def delete_rule(repositories: Repositories, rule_id: str, *, author: Author) -> StoredRule:
    """Delete a rule in an open transaction, and return it. Its alerts are resolved.

    Raises:
        UnknownRule: If the author may access no such rule.
    """
    changes = RuleChanges(repositories, author)
    found = _find(repositories, rule_id, author)
    changes.delete(found)
    changes.write()
    return found


def _find(repositories: Repositories, rule_id: str, author: Author) -> StoredRule:
    found = repositories.rules.find(rule_id)
    if found is None or not author.caller.reaches(found.project):
        raise UnknownRule.by_id(rule_id)
    return found
