"""Replaces a set of rules by the rules of a file."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor_server.errors import InvalidField, RuleConflict
from monitor_server.rules.administration.changes import Author, RuleChanges, different_fields
from monitor_server.rules.administration.single_rules import place_rule
from monitor_server.rules.definition import MAX_RULES, ComparisonRule, Rule
from monitor_server.store.repositories import Repositories

__all__ = ["COLLECTORS_SET", "AppliedRules", "apply_rules"]

COLLECTORS_SET: Final = "collector"
"""The name of the set for the file that the collector's settings name."""


@dataclass(slots=True, kw_only=True)
class AppliedRules:
    """The changes by a file: names of rules, and the changed fields of changed rules."""

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
    """Replace the rules of a set by those of a file, all or nothing: other rules of the set are deleted.

    Rules of other sets, and rules that people have made, stay as they are. Applying the same file again changes
    nothing.

    Args:
        repositories: An open transaction.
        file_set: The name of the set. The sets of a key for one project are separate.
        wanted: Every rule of the set.
        author: The person or key that applies the set.
        is_of_settings: Whether it is the file that the settings of the collector name. Only this file uses the set
            `COLLECTORS_SET`.

    Raises:
        RuleConflict: If the set is that of the collector's own file, a name is taken by a rule of another set or of a
            person, or there are too many.
        ScopeTooSmall, UnknownRun, InvalidField: See `place_rule`.
    """
    if file_set == COLLECTORS_SET and not is_of_settings:
        raise RuleConflict(
            f"the set {COLLECTORS_SET!r} holds the rules of the file of RLVITALS_RULES_FILE; choose another name"
        )
    # Checked first, because each rule costs a look-up.
    if author.caller.project is not None and len(wanted) > MAX_RULES:
        raise RuleConflict(f"at most {MAX_RULES} rules can belong to a project with its runs, got {len(wanted)}")
    changes = RuleChanges(repositories, author)
    kept_set = file_set if author.caller.project is None else f"{author.caller.project}/{file_set}"
    placed = [place_rule(repositories, rule, author.caller) for rule in wanted]
    places = Counter((rule.project, rule.run_id, rule.name) for rule in placed)
    twice = next((name for (_, _, name), number in places.items() if number > 1), None)
    if twice is not None:
        raise InvalidField(f"two rules of a file must differ in name, project or run, got {twice!r} twice")
    result, held = AppliedRules(), {}
    for stored in repositories.rules.of_set(kept_set):
        if (stored.project, stored.run_id, stored.name) in places:
            held[stored.project, stored.run_id, stored.name] = stored
        else:
            changes.delete(stored)
            result.deleted.append(stored.name)
    # A comparison that is replaced by another kind of rule makes room for a new comparison, so comparisons come last.
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
