"""Errors of a caller that is unknown, that lacks a permission, or that has sent too much."""

from types import MappingProxyType

from monitor_server.errors.base import CollectorError

__all__ = ["KeyRequired", "ScopeTooSmall", "SignInRefused", "TooManyRequests"]


class KeyRequired(CollectorError):
    """The request needs a valid key."""

    status = 401
    headers = MappingProxyType({"WWW-Authenticate": "Bearer"})


class ScopeTooSmall(CollectorError):
    """The caller is known, and lacks the permission."""

    status = 403


class SignInRefused(CollectorError):
    """A sign-in by OpenID Connect has failed; ``reason`` is a code, and the sign-in page has a sentence for each code.

    Args:
        reason: ``provider``, ``refused``, ``invalid``, ``expired``, ``unverified`` or ``no_group``.
        message: The failure, for the log.
        subject: The person from the provider, if the claims show that this person has no permission here.
    """

    status = 403

    def __init__(self, reason: str, message: str, *, subject: str | None = None) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.subject = subject

    def __str__(self) -> str:
        return str(self.args[1])


class TooManyRequests(CollectorError):
    """A key has sent more than its limit in a time."""

    status = 429

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.headers = MappingProxyType({"Retry-After": str(retry_after)})
