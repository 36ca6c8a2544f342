"""The interface of a search tool, and a call with a time limit."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

__all__ = ["SearchTool", "ToolError", "within"]

T = TypeVar("T")


class ToolError(RuntimeError):
    """The tool failed, so the step cannot be trained on; the message says what to do next."""


class SearchTool(Protocol):
    """Finds passages for queries."""

    def search(self, queries: Sequence[str]) -> list[list[str]]:
        """Find passages for each query, best first; an empty list where nothing matches.

        Raises:
            ToolError: If it cannot answer.
        """
        ...


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of a call that has a time limit in seconds.

    A call that hangs is left to a daemon thread: Python cannot end it, and the process can still exit.

    Raises:
        ToolError: If it raises, or does not return in time.
    """
    returned: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # noqa: BLE001 - the caller re-raises any error
            raised.append(error)

    thread = threading.Thread(target=run, name="search-tool", daemon=True)
    thread.start()
    thread.join(seconds)
    if returned:
        return returned[0]
    if not raised:
        raise ToolError(
            f"the search tool must answer within {seconds:g} s, got nothing; check it, or raise --tool-timeout"
        )
    if isinstance(raised[0], ToolError):
        raise raised[0]
    raise ToolError(f"the search tool must answer, got {type(raised[0]).__name__}: {raised[0]}") from raised[0]
