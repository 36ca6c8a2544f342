"""Marks on the charts of a run: its alerts, and other events."""
