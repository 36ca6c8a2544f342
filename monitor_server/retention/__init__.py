"""Removes deleted runs and what the settings do not keep, beside ingest, in transactions of some milliseconds."""
