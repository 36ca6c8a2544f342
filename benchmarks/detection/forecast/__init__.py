"""Fits the hazard models of the forecast, and scores them on runs that they were not fitted on.

``make bench-forecast CORPUS=FOLDER`` writes weights and docs/forecast-results.md.
"""
