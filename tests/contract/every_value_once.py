"""A filter of Schemathesis's that sends a wrong value in one place of a request once, whatever stands beside it.

Schemathesis sends such a value alone and beside each optional parameter of a query, and in each type of a union. The
collector refuses all of these before the code of a route runs. The process that starts Schemathesis names this file in
SCHEMATHESIS_HOOKS.
"""

from collections import defaultdict

import schemathesis

WRONG_VALUES = {
    "incorrect_type",
    "invalid_enum_value",
    "invalid_pattern",
    "value_below_minimum",
    "value_above_maximum",
    "string_below_min_length",
    "string_above_max_length",
    "array_above_max_items",
}
SENT: dict[str, set[object]] = defaultdict(set)


@schemathesis.hook
def filter_case(_, case):
    """Whether a request has no wrong value, or one that its place has not had yet."""
    scenario = getattr(case.meta.phase.data, "scenario", None)
    if scenario is None or scenario.value not in WRONG_VALUES:
        return True
    place, value = _wrong_value(case)
    wrong = (scenario, place, repr(value))
    is_new = wrong not in SENT[case.operation.label]
    SENT[case.operation.label].add(wrong)
    return is_new


def _wrong_value(case):
    """Return the names that lead to the wrong value of a request, and the value."""
    made = case.meta.phase.data
    container = made.parameter_location.container_name
    # The description is "name -> name: what is wrong" for a value inside an object, and else "what is wrong".
    names = [name for name in made.description.rpartition(": ")[0].split(" -> ") if name]
    if container != "body" and names[:1] != [made.parameter]:
        names = [made.parameter, *names]
    value = getattr(case, container)
    for name in names:
        if isinstance(value, dict) and name in value:
            value = value[name]
    return (container, *names), value
