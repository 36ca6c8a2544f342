"""The lowest schema version that can read a record, so that older collectors can read most records (decision 0005)."""

from collections.abc import Iterable
from typing import Final

from trainer_hooks.wire import Record

__all__ = ["FIRST_VERSION", "version_of_record", "version_of_responses"]

FIRST_VERSION: Final = 1
"""The version of a batch without records."""
FULL_VERSION: Final = 2
ANSWERING_VERSION: Final = 3
FORKING_VERSION: Final = 4
COMPARING_VERSION: Final = 5
COMPARING_FIELDS: Final = frozenset({"mismatches", "advantages"})


def version_of_record(record: Record) -> int:
    """Return the version that reads a record, as far as it does not depend on the fields of its responses."""
    if any(report.action == "fork" for report in record.actions):
        return FORKING_VERSION
    if any(report.request_id is not None for report in record.actions):
        return ANSWERING_VERSION
    return FULL_VERSION if record.responses or record.actions else FIRST_VERSION


def version_of_responses(fields: Iterable[str]) -> int:
    """Return the version that reads sampled responses with these fields of the wire."""
    return FULL_VERSION if COMPARING_FIELDS.isdisjoint(fields) else COMPARING_VERSION
