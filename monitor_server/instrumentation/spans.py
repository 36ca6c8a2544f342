"""Spans of the collector's work: named, timed, with attributes. They are recorded only if the settings ask for it.

The parts of the collector open spans with the function that they receive. Only `exposition.open_telemetry` records
them.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Protocol, Self

__all__ = ["OpenSpan", "Span", "no_span"]

AttributeValue = str | int | float | bool


class Span:
    """A piece of work that is not recorded; the methods do nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End; only the type of an error is recorded, because its text may contain data from a client."""

    def set(self, name: str, value: AttributeValue) -> None:
        """Set an attribute."""

    def fail(self, reason: str) -> None:
        """Mark the work as failed, for a reason that contains no secret."""


class OpenSpan(Protocol):
    """Opens a span as the child of the one around it."""

    def __call__(self, name: str, attributes: Mapping[str, AttributeValue] | None = None, /) -> Span:
        """Return a span, which begins with its ``with`` block."""
        ...


_NOTHING: Final = Span()


def no_span(name: str, attributes: Mapping[str, AttributeValue] | None = None, /) -> Span:  # noqa: ARG001 - OpenSpan
    """Return a span that is not recorded."""
    return _NOTHING
