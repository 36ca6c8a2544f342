"""Base classes of the detectors, and functions to read a signal."""
