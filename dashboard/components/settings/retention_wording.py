"""States in words how long data is kept: the data of each limit, the limits of a form, and what they would remove."""

from collections.abc import Mapping, Sequence
from typing import Final

from dashboard.collector_client.types.administration import RemovalItem

__all__ = ["RETENTION", "describe_removals", "find_changed_limits", "limit_in_words"]

RETENTION: Final = {  # what is removed, and the unit of the limit
    "record_steps": ("raw records of all but the newest steps of a run", "steps"),
    "record_days": ("raw records of a run that sends nothing", "days"),
    "response_steps": ("responses of all but the newest steps, and of about as many older steps", "steps"),
    "response_days": ("responses of a run that sends nothing", "days"),
    "step_days": ("steps of a run that sends nothing are thinned", "days"),
    "thinned_steps": ("most steps that thinning keeps, without those around alerts", "steps"),
    "run_days": ("a run that sends nothing, as a whole", "days"),
    "audit_days": ("entries of the audit log, and ended silences", "days"),
}
REMOVED: Final = {
    "records": "about {rows:,} raw records of {runs}",
    "responses": "{rows:,} responses of {runs}",
    "steps": "at most {rows:,} steps of {runs}",
    "runs": "{runs} as a whole, with {rows:,} steps",
}
# The wording if the collector has ended its count before the last run.
AT_LEAST: Final = {
    "records": "at least {rows:,} raw records of {runs}",
    "responses": "at least {rows:,} responses of {runs}",
    "steps": "about {rows:,} steps of {runs}, and more of others",
    "runs": "at least {runs} as a whole, with {rows:,} steps or more",
}


def limit_in_words(name: str, value: float | None) -> str:
    """Return a limit in words."""
    if value is None:
        return "the default" if name == "thinned_steps" else "for good"
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.10g}"
    return f"{number} {RETENTION.get(name, ('', ''))[1]}"


def find_changed_limits(
    drawn: Mapping[str, float | None], given: Mapping[str, float | None]
) -> dict[str, float | None]:
    """Return the limits that a form changes; an empty field restores the default, which keeps data for ever.

    Args:
        drawn: The limits with which the form was drawn. A field that still has its value was not changed, even if
            another limit is in force now.
        given: The numbers of the fields, by the names of the limits; None where a field is empty.
    """
    return {name: value for name, value in given.items() if name in drawn and value != drawn[name]}


def describe_removals(
    asked: Mapping[str, float | None], seen: Mapping[str, float | None], removals: Sequence[RemovalItem]
) -> str:
    """Return the question that is asked before limits are saved."""
    changes = [
        f"{RETENTION[name][0]}: {limit_in_words(name, seen[name])}, now {limit_in_words(name, value)}"
        for name, value in asked.items()
    ]
    found = [
        (REMOVED if each["is_complete"] else AT_LEAST)[each["removes"]].format(
            rows=each["rows"], runs=_runs(each["runs"])
        )
        for each in removals
        if each["runs"] or not each["is_complete"]
    ]
    removed = "This removes nothing at present."
    if found:
        removed = f"This removes {', '.join(found)}, within seconds. It cannot be undone."
    if not all(each["is_complete"] for each in removals):
        removed += " There is so much data that the collector has stopped counting."
    return f"{'; '.join(changes)}. {removed} Save?"


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number:,} runs"
