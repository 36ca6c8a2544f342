"""Removes deleted runs and expired data in transactions of some milliseconds, so that ingest continues meanwhile."""
