"""`rlvitals watch`: the fleet in a terminal, the most urgent run first, until Ctrl-C."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from monitor_server.commands.client import DEFAULT_URL, fetch_json
from monitor_server.commands.errors import CommandError
from monitor_server.commands.terminal import console, printable

__all__ = ["run"]

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-=+*#@"
SPARKLINE_WIDTH = 24  # characters
NUMBER_WIDTH = 8
NARROW_WIDTH = 130  # of a terminal: below, columns that say less are left out
SHARES = {"run": 3, "project": 8}  # of the width, that long names may take from what fires: a third, an eighth
LESS = frozenset({"project", "status", "change"})
UNBOUNDED_WIDTH = 200  # where no terminal reads
SEVERITIES = {"critical": "bold red", "warning": "dark_orange", "info": "blue"}
PHASES = {"healthy": "green", "decay": "dark_orange", "acceleration": "bold red", "collapsed": "magenta"}


def run(
    *,
    project: Annotated[str | None, typer.Option(help="Only runs of this project.")] = None,
    url: Annotated[str, typer.Option(help="Address of the collector.")] = DEFAULT_URL,
    interval: Annotated[float, typer.Option(help="Seconds between two readings.", min=0.2, max=86_400)] = 2.0,
    limit: Annotated[int, typer.Option(help="Most runs.", min=1, max=1000)] = 30,
) -> int:
    """Show the runs that are not archived and what fires; where no terminal can redraw them, print them once."""
    asked = {"sort": "urgency", "archived": "false", "limit": str(limit)} | ({"project": project} if project else {})
    terminal = console()
    is_read = sys.stdout.isatty()
    if not is_read or terminal.is_dumb_terminal:
        terminal.width = terminal.width if is_read else UNBOUNDED_WIDTH
        terminal.print(_runs(url, asked, is_ascii=terminal.options.ascii_only, width=terminal.width))
        return 0
    with Live(console=terminal, screen=True, auto_refresh=False) as live:
        while True:
            shown = _read(url, asked, is_ascii=terminal.options.ascii_only, width=terminal.width)
            live.update(shown, refresh=True)
            time.sleep(interval)


def _read(url: str, asked: Mapping[str, str], *, is_ascii: bool, width: int) -> Table | Text:
    """Return what the screen shows: the runs, or why they cannot be read, until they can."""
    try:
        return _runs(url, asked, is_ascii=is_ascii, width=width)
    except CommandError as error:
        return Text(f"{printable(error)}\nasked again every few seconds; Ctrl-C ends", style="dark_orange")


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
    shown, total, is_narrow = len(answer["items"]), answer["total"], width < NARROW_WIDTH
    title = f"{total} run{'s' * (total != 1)}" + (f", the {shown} most urgent" if shown < total else "")
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    rows = [_cells(item, ASCII_BARS if is_ascii else BARS) for item in answer["items"]]
    for name in ("run", "project", "alert", "phase", "status", "step", "reward", "change", "newest rewards"):
        if is_narrow and name in LESS:
            continue
        if name in {"step", "reward", "change"}:
            table.add_column(name, justify="right", no_wrap=True, min_width=NUMBER_WIDTH)
        else:
            widest = width // SHARES[name] if name in SHARES else None
            table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=widest)
    for row in rows:
        table.add_row(*(cell for name, cell in row.items() if not is_narrow or name not in LESS))
    return table


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
    """Return the newest values as one line of bars; one that is not finite is an exclamation mark."""
    newest = [float(value) for value in values][-SPARKLINE_WIDTH:]
    finite = [value for value in newest if math.isfinite(value)]
    if not finite:
        return "!" * len(newest)
    low, high = min(finite) / 2, max(finite) / 2  # a half each: the range of the largest numbers is no number
    span = (high - low) or 1.0
    return "".join(
        bars[int((value / 2 - low) / span * (len(bars) - 1))] if math.isfinite(value) else "!" for value in newest
    )
