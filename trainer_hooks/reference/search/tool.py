"""What a search tool is, and how to call one that may raise or never return."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

__all__ = ["SearchTool", "ToolError", "within"]

T = TypeVar("T")


class ToolError(RuntimeError):
    """The tool did not answer as it must, so the step cannot be trained on; the message says what to do."""


class SearchTool(Protocol):
    """Finds passages for queries."""

    def search(self, queries: Sequence[str]) -> list[list[str]]:
        """Give the passages found for each query, best first; none where nothing matches.

        Raises:
            ToolError: If it cannot answer.
        """
        ...


def within(seconds: float, call: Callable[[], T]) -> T:
    """Give what a call returns, if it does within so many seconds.

    A call that hangs is left to a daemon thread: Python cannot end it, and the process can still exit.

    Raises:
        ToolError: If it raises, or does not return in time.
    """
    returned: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller must hear of it
            raised.append(error)

    thread = threading.Thread(target=run, name="search-tool", daemon=True)
    thread.start()
    thread.join(seconds)
    if returned:
        return returned[0]
    if not raised:
        raise ToolError(
            f"the search tool must answer within {seconds:g} s, got nothing; see to it, or raise --tool-timeout"
        )
    if isinstance(raised[0], ToolError):
        raise raised[0]
    raise ToolError(f"the search tool must answer, got {type(raised[0]).__name__}: {raised[0]}") from raised[0]
