"""Compares the suspect that alerts name with the cause of a failure, where the cause is known because it was set.

``python -m benchmarks.detection.causes`` prints the tables, for suite A's failing kinds and faults and for suite D.
"""
