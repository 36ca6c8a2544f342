"""Errors that say why an answer of the collector cannot be used; each message can be shown on a page."""

from typing import Final

import httpx2

__all__ = ["ApiError", "NotFoundError", "UnconfirmedError", "UnreachableError", "describe_failure", "error_of_answer"]

UNCONFIRMED: Final = "It is not known whether this was done: look before you repeat it."


class ApiError(Exception):
    """The collector's answer cannot be used; the message can be shown on the page.

    Attributes:
        status: The status of the answer; 502 if there was no answer, or none that can be read.
    """

    status: int = httpx2.codes.BAD_GATEWAY


class UnreachableError(ApiError):
    """The collector gave no answer that can be read, or it or a proxy is not available now; a retry may succeed."""


class UnconfirmedError(UnreachableError):
    """The collector may or may not have done what it was asked for."""


class NotFoundError(ApiError):
    """The collector has no such run or alert."""

    status = httpx2.codes.NOT_FOUND


def describe_failure(refusal: str, error: ApiError, problem: str | None = None) -> str:
    """Return a message about a change that failed.

    Args:
        refusal: The message if nothing was changed, such as ``Not saved.``
        error: What failed.
        problem: The part of the error to show; all of it if None.
    """
    opening = UNCONFIRMED if isinstance(error, UnconfirmedError) else refusal
    return f"{opening} {error if problem is None else problem}"


def error_of_answer(status: int, detail: str) -> ApiError:
    """Return the error for the status and the detail of the collector's answer."""
    error = _of_status(status, detail)
    error.status = status
    return error


def _of_status(status: int, detail: str) -> ApiError:
    if status == httpx2.codes.NOT_FOUND:
        return NotFoundError(detail)
    is_passing = status >= httpx2.codes.INTERNAL_SERVER_ERROR or status == httpx2.codes.TOO_MANY_REQUESTS
    return (UnreachableError if is_passing else ApiError)(f"The collector answered {status}: {detail}")
