"""Definitions and units of signals for readers, from the one table of docs/signals.md."""
