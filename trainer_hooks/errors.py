"""Errors that the SDK raises, all of them before training starts.

VitalsError
├── ConfigurationError (ValueError)   connect() was told something that cannot work
└── RolloutsError (ValueError)        token arrays that contradict each other

After `connect` has returned, nothing of ours raises into training: a later failure is counted by reason.
"""

__all__ = ["ConfigurationError", "RolloutsError", "VitalsError"]


class VitalsError(Exception):
    """Base of all errors of the SDK."""


class ConfigurationError(VitalsError, ValueError):
    """A connection setting cannot work; the message says which and what to do."""


class RolloutsError(VitalsError, ValueError):
    """Rollout arrays contradict each other; the message locates the first contradiction."""
