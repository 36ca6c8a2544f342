"""Base classes of the detectors, what holds their findings, and functions to read a signal."""
