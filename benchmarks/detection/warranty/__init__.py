"""Fleets of runs under a budget of false pages: tests whether the budget is kept, and measures its cost.

``python -m benchmarks.detection.warranty`` simulates them and prints the tables of docs/warranty-results.md.
"""
