"""The errors of the SDK.

VitalsError
├── ConfigurationError (ValueError)   a setting of connect() cannot work
├── RolloutsError (ValueError)        token arrays contradict each other
├── UnavailableError                  a batch was not delivered and should be sent again
└── RefusedError                      the collector will never accept a batch

The first two are raised before training starts. The last two are raised by transports, in a background thread or in
`trainer_hooks.sync`. After `connect` has returned, no error of the SDK reaches training; failures are counted by
reason.
"""

__all__ = ["ConfigurationError", "RefusedError", "RolloutsError", "UnavailableError", "VitalsError"]


class VitalsError(Exception):
    """Base of all errors of the SDK."""


class ConfigurationError(VitalsError, ValueError):
    """A connection setting cannot work; the message names the setting and says what to do."""


class RolloutsError(VitalsError, ValueError):
    """Rollout arrays contradict each other; the message locates the first contradiction."""


class UnavailableError(VitalsError):
    """The batch did not arrive, or may not have arrived; sending it again is right.

    Args:
        detail: The failure, in words.
        retry_after_seconds: How long the collector asked us to wait.
        is_deferred: Whether nothing was tried, because the last failure is too recent.
    """

    def __init__(self, detail: str, *, retry_after_seconds: float = 0.0, is_deferred: bool = False) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds
        self.is_deferred = is_deferred


class RefusedError(VitalsError):
    """The collector will never accept this batch; sending it again is useless."""
