"""Marks on the charts of a run: its alerts, and what happened to it."""
