"""Prints text of the commands: text from outside is escaped, and only a terminal receives colours."""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from monitor_server.text_safety.printable import printable

__all__ = ["console", "error", "local_time", "printable", "say", "table"]


def console(*, stderr: bool = False) -> Console:
    """Return a console that interprets no markup, wraps nothing, and uses colours only on a terminal."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say(text: str) -> None:
    """Print one text at once; its lines are ours, so inserted values must have passed through `printable`."""
    print(text, flush=True)  # noqa: T201 - a command prints


def error(message: object) -> None:
    """Print one line on standard error that begins with the program's name."""
    console(stderr=True).print(Text(f"rlvitals: {printable(message)}"))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a heading, in columns as wide as their widest cell; None is an empty cell."""
    cells = [columns, *(["" if cell is None else printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    terminal = console()
    for number, row in enumerate(cells):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        terminal.print(Text(line, style="bold" if number == 0 else ""))


def local_time(at: float) -> str:
    """Return seconds since the epoch as this machine's time; a number outside of the calendar stays a number."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return f"{at:g} s"
