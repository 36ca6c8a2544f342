"""Turns the log of a run into complete steps, findings, alerts and phases, in a background thread."""
