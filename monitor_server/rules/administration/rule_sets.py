"""Brings a set of rules to what a file states."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor_server.errors import InvalidField, RuleConflict
from monitor_server.rules.administration.changes import Author, RuleChanges, different_fields
from monitor_server.rules.administration.single_rules import placed_rule
from monitor_server.rules.definition import MAX_RULES, ComparisonRule, Rule
from monitor_server.store.repositories import Repositories

__all__ = ["COLLECTORS_SET", "AppliedRules", "apply_rules"]

COLLECTORS_SET: Final = "collector"
"""The set of the rules that the file of the collector's settings states."""


@dataclass(slots=True, kw_only=True)
class AppliedRules:
    """What applying a file has changed: names of rules, and of changed rules the fields."""

    created: list[str] = field(default_factory=list)
    changed: dict[str, list[str]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0


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
    changes = RuleChanges(repositories, author)
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
            changes.delete(stored)
            result.deleted.append(stored.name)
    # A comparison that becomes another condition makes room for one that is new.
    for rule in sorted(placed, key=lambda rule: isinstance(rule, ComparisonRule)):
        before = held.get((rule.project, rule.run_id, rule.name))
        if before is None:
            changes.create(rule, kept_set)
            result.created.append(rule.name)
        elif (changed := changes.replace(before, rule)) is before:
            result.unchanged += 1
        else:
            result.changed[rule.name] = different_fields(before.definition, changed.definition)
    changes.write()
    return result
