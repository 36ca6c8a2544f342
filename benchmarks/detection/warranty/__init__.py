"""Fleets of runs under a warranty: tests whether it is kept, and measures its cost.

``python -m benchmarks.detection.warranty`` simulates them and prints the tables of docs/warranty-results.md.
"""
