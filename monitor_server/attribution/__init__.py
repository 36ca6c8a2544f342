"""The explanation of an alert: what moved first, which actions, responses and tokens carry it, and remedies.

It is pure, like detection: numpy and the standard library, no clock, no store. It opens and closes no alert. It is
computed from stored data on request, and lists missing data as not observed.
"""
