"""Makes text from outside safe to show: in a terminal, a log line, an error message, a label of Prometheus.

This is the only module that escapes. The formatter of the logs and the answers of the API call it for all text that
they write. The dashboard, which must not import this package, has the same rule in
`dashboard.collector_client.answers`.
"""

import logging
from typing import Any

__all__ = ["PrintableFormatter", "one_line", "printable"]


def printable(text: object, *, longest: int | None = None) -> str:
    r"""Return a text with every character that is not printable written as an escape.

    Control characters would let a run's name or a note move the cursor, set the window's title or forge lines. Line
    ends, the C1 controls, direction marks and lone surrogates are escaped as well: ``"a\x1b[2J"`` becomes
    ``"a\\x1b[2J"``.

    Args:
        text: The text.
        longest: The largest number of characters; a cut is marked with "…".
    """
    shown = str(text)
    if longest is not None and len(shown) > longest:
        shown = shown[:longest] + "…"
    if shown.isprintable():
        return shown
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in shown
    )


def one_line(text: object) -> str:
    """Return a message of several lines, such as PostgreSQL's, as one line; `printable` would show its line ends."""
    return " ".join(str(text).split())


class PrintableFormatter(logging.Formatter):
    """Formats log records so that no text from outside can forge the first line of a record.

    A message is one line. The lines of a traceback are indented, and an exception's text cannot leave them.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Format the first line."""
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802 - logging's own
        """Format a traceback."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).splitlines())

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """Format a stack."""
        return "\n".join(f"  {printable(line)}" for line in stack_info.splitlines())
