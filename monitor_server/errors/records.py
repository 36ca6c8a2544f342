"""Errors that refuse one record of a batch, while the others are accepted."""

__all__ = ["InvalidRecord", "RecordError", "SummaryConflict", "TooManySignals"]


class RecordError(ValueError):
    """Base of the errors that refuse one record of a batch."""


class InvalidRecord(RecordError):
    """A field of the record is unknown, missing, of the wrong type or out of range."""


class TooManySignals(RecordError):
    """The record has more signals than are read; those beyond the limit of a run are left out instead."""


class SummaryConflict(RecordError):
    """A summary cannot be merged with the one that another rank sent for the same step."""
