"""`rlvitals watch`: the fleet in a terminal, the most urgent run first, until Ctrl-C."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, fetch_json
from monitor_server.commands.errors import CommandError
from monitor_server.commands.processes import interrupted_by_sigterm
from monitor_server.commands.terminal import console, printable
from monitor_server.plot_scale import ASCII_BARS, BARS, share_of_range

__all__ = ["run"]

SPARKLINE_WIDTH = 24  # characters
NUMBER_WIDTH = 8
COLUMNS = ("run", "project", "alert", "phase", "status", "step", "reward", "change", "newest rewards")
# In a terminal that is too narrow for all columns, the first of these are shown.
IMPORTANCE = ("run", "alert", "step", "phase", "reward", "newest rewards", "status", "change", "project")
NUMBERS = frozenset({"step", "reward", "change"})
GAP = 2  # characters between two columns
SHARES = {"run": 3, "project": 8}  # of the width: long names leave the rest to the alerts; a third and an eighth
UNBOUNDED_WIDTH = 200  # used if the output is not a terminal
SEVERITIES = {"critical": "bold red", "warning": "dark_orange", "info": "blue"}
PHASES = {"healthy": "green", "decay": "dark_orange", "acceleration": "bold red", "collapsed": "magenta"}


def run(
    *,
    project: Annotated[str | None, typer.Option(help="Only runs of this project.")] = None,
    url: CollectorUrl = DEFAULT_URL,
    interval: Annotated[float, typer.Option(help="Seconds between two readings.", min=0.2, max=86_400)] = 2.0,
    limit: Annotated[int, typer.Option(help="Largest number of runs to show.", min=1, max=1000)] = 30,
) -> int:
    """Show the runs that are not archived and their alerts; without a terminal to redraw, print them once."""
    asked = {"sort": "urgency", "archived": "false", "limit": str(limit)} | ({"project": project} if project else {})
    terminal = console()
    is_read = _is_terminal()
    if not is_read or terminal.is_dumb_terminal:
        terminal.width = terminal.width if is_read else UNBOUNDED_WIDTH
        terminal.print(_runs(url, asked, is_ascii=terminal.options.ascii_only, width=terminal.width))
        return 0
    with (
        interrupted_by_sigterm(),
        suppress(KeyboardInterrupt),
        Live(console=terminal, screen=True, auto_refresh=False) as live,
    ):
        while _is_terminal():  # not any more where its window was closed
            shown = _read(url, asked, is_ascii=terminal.options.ascii_only, width=terminal.width)
            live.update(shown, refresh=True)
            time.sleep(interval)
    return 0


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # there is none where it was closed


def _read(url: str, asked: Mapping[str, str], *, is_ascii: bool, width: int) -> Table | Text:
    """Return the content of the screen: the runs, or the reason for which they cannot be read now."""
    try:
        return _runs(url, asked, is_ascii=is_ascii, width=width)
    except CommandError as error:
        message = f"{printable(error)}\nasked again every few seconds; Ctrl-C ends"
        return Text(message, style="dark_orange", no_wrap=False, overflow="fold")


def _runs(url: str, asked: Mapping[str, str], *, is_ascii: bool, width: int) -> Table:
    answer = fetch_json("GET", url, "/runs", fields=dict(asked))
    try:
        return _table(answer, is_ascii=is_ascii, width=width)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CommandError(
            f"{url} must list its runs as a collector of this version does, but {error!r} was raised by its answer; "
            "give the address of a collector as --url, or upgrade it"
        ) from error


def _table(answer: Mapping[str, Any], *, is_ascii: bool, width: int) -> Table:
    shown, total = len(answer["items"]), answer["total"]
    title = f"{total} run{'s' * (total != 1)}" + (f", the {shown} most urgent" if shown < total else "")
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), title=title, title_justify="left")
    rows = [_cells(item, ASCII_BARS if is_ascii else BARS) for item in answer["items"]]
    widths = _widths(rows, width)
    for name in (column for column in COLUMNS if column in widths):
        justify: Literal["left", "right"] = "right" if name in NUMBERS else "left"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", width=widths[name])
    for row in rows:
        table.add_row(*(row[name] for name in COLUMNS if name in widths))
    return table


def _widths(rows: Sequence[Mapping[str, Text]], width: int) -> dict[str, int]:
    """Return the columns that fit, with their widths in characters; the run and its alert always fit."""
    left, widths = width + GAP, {}
    for name in IMPORTANCE:
        widest = max([len(name), *(row[name].cell_len for row in rows)])
        if name in SHARES:
            widest = max(len(name), min(widest, width // SHARES[name]))
        if name in NUMBERS:
            widest = max(widest, NUMBER_WIDTH)
        if name == "alert":
            widest = max(1, min(widest, left - GAP))
        if widest + GAP > left and name not in {"run", "alert"}:
            break
        widths[name] = widest
        left -= widest + GAP
    return widths


def _cells(item: Mapping[str, Any], bars: str) -> dict[str, Text]:
    alert = item["leading_alert"]
    severity, phase = printable(alert["severity"]) if alert else "", printable(item["phase"])
    return {
        "run": Text(printable(item["title"] or item["name"]), style="bold"),
        "project": Text(printable(item["project"])),
        "alert": Text(f"{severity} {printable(alert['kind'])}" if alert else "", style=SEVERITIES.get(severity, "")),
        "phase": Text(phase, style=PHASES.get(phase, "")),
        "status": Text(printable(item["status"])),
        "step": _number(item["last_step"]),
        "reward": _number(item["reward"]),
        "change": _number(item["reward_change"]),
        "newest rewards": Text(_sparkline(item["sparkline"]["values"], bars), style="cyan"),
    }


def _number(value: float | None) -> Text:
    return Text("-" if value is None else str(value) if isinstance(value, int) else f"{value:.4g}")


def _sparkline(values: Sequence[float | str], bars: str) -> str:
    """Return the newest values as one line of bars; a value that is not finite is an exclamation mark."""
    newest = [float(value) for value in values][-SPARKLINE_WIDTH:]
    finite = [value for value in newest if math.isfinite(value)]
    if not finite:
        return "!" * len(newest)
    low, high, top = min(finite), max(finite), len(bars) - 1
    return "".join(
        bars[int(share_of_range(value, low, high) * top)] if math.isfinite(value) else "!" for value in newest
    )
