"""Deletes the rules of a random example, so that they do not concern the runs of the next one."""

from monitor_server.rules.administration.single_rules import delete_rule


def delete_rules(store, rules, author):
    """Delete rules, given by name as pairs of an id and a version."""
    with store.write() as repositories:
        for rule_id, _ in rules.values():
            delete_rule(repositories, rule_id, author=author)
