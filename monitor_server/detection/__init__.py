"""Failure detectors as pure streaming functions: a live run, a replay and a test call the same code."""
