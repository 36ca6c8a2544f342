"""Base classes of the detectors, and how they read a signal."""
