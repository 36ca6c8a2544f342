"""Removes deleted runs and expired data in transactions of tens of milliseconds, so that ingest continues meanwhile."""
