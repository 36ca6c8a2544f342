"""Whose turn it is: the queue of runs, the receipts that wait for a verdict, and what lets ingest go first."""
