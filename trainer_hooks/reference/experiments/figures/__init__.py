"""Figures of experiments: recorded runs in, a Plotly figure out."""
