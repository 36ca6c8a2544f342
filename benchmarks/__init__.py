"""Benchmarks: each prints a table of ratios; `python -m benchmarks` runs them all."""
