"""Fleets of runs under a budget of false pages: is the budget kept, and what does it cost?

``python -m benchmarks.detection.warranty`` simulates them and prints the tables of docs/warranty-results.md.
"""
