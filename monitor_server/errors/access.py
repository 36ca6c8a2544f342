"""Errors of a caller who is not known, or who may not do this, or not so often."""

from types import MappingProxyType

from monitor_server.errors.base import CollectorError

__all__ = ["KeyRequired", "ScopeTooSmall", "SignInRefused", "TooManyRequests"]


class KeyRequired(CollectorError):
    """The request needs a key that is valid."""

    status = 401
    headers = MappingProxyType({"WWW-Authenticate": "Bearer"})


class ScopeTooSmall(CollectorError):
    """The caller is known, and may not do this."""

    status = 403


class SignInRefused(CollectorError):
    """A sign-in by OpenID Connect has failed; ``reason`` is the code that the sign-in page has a sentence for.

    Args:
        reason: ``provider``, ``refused``, ``invalid``, ``expired``, ``unverified`` or ``no_group``.
        message: What has happened, for the log.
        subject: The person whom the provider has named, where the claims state that they may do nothing here.
    """

    status = 403

    def __init__(self, reason: str, message: str, *, subject: str | None = None) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.subject = subject

    def __str__(self) -> str:
        return str(self.args[1])


class TooManyRequests(CollectorError):
    """A key has sent more than it may in a time."""

    status = 429

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.headers = MappingProxyType({"Retry-After": str(retry_after)})
