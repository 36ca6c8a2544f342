"""Marks: the events of a run at its steps, for charts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from monitor_server.api.schemas.base import Schema, Time
from monitor_server.store.repositories.acknowledgements import StoredAcknowledgement
from monitor_server.store.repositories.attempts import AttemptSpan

__all__ = ["MarkItem", "acknowledgement_mark", "action_mark", "attempt_marks", "comment_mark"]


class MarkItem(Schema):
    """An event of a run at a step."""

    kind: Literal["attempt", "rewind", "action", "acknowledgement", "comment"]
    step: int
    time: Time = Field(description="Seconds since the epoch")
    text: str = Field(description="The event, as a sentence without a full stop")
    by: str | None = Field(description="The person who caused the event; null if no person did")


def attempt_marks(spans: Sequence[AttemptSpan]) -> Iterator[MarkItem]:
    """Yield a mark for each later attempt that has a step: a rewind if it begins before the last step.

    Args:
        spans: The attempts of a run, the oldest first.
    """
    last: int | None = None
    for ordinal, span in enumerate(spans, start=1):
        if span.first_step is None or span.last_step is None:
            continue
        configured = _describe_changes(span)
        if last is not None:
            is_rewind = span.first_step <= last
            text = f"went back from step {last} to step {span.first_step}" if is_rewind else "went on"
            yield MarkItem(
                kind="rewind" if is_rewind else "attempt",
                step=span.first_step,
                time=span.first_seen,
                text=f"attempt {ordinal} {text}{configured}",
                by=None,
            )
        last = span.last_step


def _describe_changes(span: AttemptSpan) -> str:
    """Describe the changes of the configuration by an attempt."""
    if not span.has_config:
        return ""
    if span.config_change is None:  # an older version stored no difference, or no earlier attempt had a configuration
        return ", with a configuration"
    return f"; configuration: {span.config_change}" if span.config_change else ", with the same configuration"


def action_mark(row: Mapping[str, Any]) -> MarkItem:
    """Make a mark for an action of the trainer."""
    outcome = str(row["outcome"]).replace("_", " ")
    why = row["detail"] or row["reason"]
    text = f"{str(row['action']).replace('_', ' ')}, {outcome}{f': {why}' if why else ''}"
    return MarkItem(kind="action", step=row["step"], time=row["time"], text=text, by=None)


def acknowledgement_mark(given: StoredAcknowledgement) -> MarkItem:
    """Make a mark for an acknowledgement, at the newest step of detection at that time."""
    text = f"{given.kind.replace('_', ' ')} acknowledged{f': {given.note}' if given.note else ''}"
    return MarkItem(kind="acknowledgement", step=given.step or 0, time=given.at, text=text, by=given.by)


def comment_mark(row: Mapping[str, Any]) -> MarkItem:
    """Make a mark for a comment, at the newest step of the run when it was written."""
    text = f"{row['kind'].replace('_', ' ')}: {row['why']}"
    return MarkItem(kind="comment", step=row["step"], time=row["at"], text=text, by=row["by"])
