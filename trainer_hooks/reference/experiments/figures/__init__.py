"""Plotly figures of recorded runs."""
