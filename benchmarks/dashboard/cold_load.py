"""Cold loads of a page of the dashboard and of the smallest Dash page with as many points, in turns."""

import argparse
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Self

import uvicorn
from dash import Dash, dcc, html
from fastapi import FastAPI
from playwright.sync_api import Browser

from benchmarks.collectors import wait_until_served
from benchmarks.dashboard.collector import PORT, SIGNALS, URL, feed, feed_long, wait_until_projected
from benchmarks.dashboard.page_metrics import page_metrics

__all__ = ["measure_fleet", "measure_long_run"]

TRACE = ".scatterlayer .trace"
HAS_FIRST_VIEW = """() => new Promise((seen) => {
    const look = () => document.getElementById('first-view') ? seen(true)
        : document.readyState === 'complete' ? seen(false) : setTimeout(look, 5);
    look();
})"""
FLEET_STEPS = 40  # of each run of the fleet


def measure_fleet(browser: Browser, _server: int, asked: argparse.Namespace) -> str:
    """Return the table of the fleet page with many runs."""
    for index in range(asked.runs):
        feed(f"run-{index}", 0, FLEET_STEPS)
    wait_until_projected({f"run-{index}": FLEET_STEPS - 1 for index in range(asked.runs)})
    loads = _loads(browser, asked, URL, "#page .fleet-row", lines=asked.runs, points=FLEET_STEPS)
    return f"### Cold load of a fleet of {asked.runs:,} runs\n\n{loads}"


def measure_long_run(browser: Browser, _server: int, asked: argparse.Namespace) -> str:
    """Return the table of the page of a run with many signals and steps."""
    address = f"{URL}/runs/{feed_long(asked)}"
    loads = _loads(browser, asked, address, f"#page {TRACE}", lines=len(SIGNALS), points=asked.steps)
    return f"### Cold load of a run of {asked.signals} signals over {asked.steps:,} steps\n\n{loads}"


def _loads(browser: Browser, asked: argparse.Namespace, address: str, ready: str, *, lines: int, points: int) -> str:
    """Load a page and the smallest Dash page with as many points, in turns."""
    with _bare_dash(lines, points) as bare:
        pairs = [(_visit(browser, bare, TRACE), _visit(browser, address, ready)) for _ in range(asked.rounds)]
    theirs, ours = (_Load.median([pair[side] for pair in pairs]) for side in (0, 1))
    return "\n".join(
        [
            "| page | first chart | chart that answers the mouse | main thread until then | received |",
            "|---|---|---|---|---|",
            f"| bare Dash, the same points | {theirs} |",
            f"| rlvitals | {ours} |",
            f"| ratio | {ours.over(theirs)} |",
            "",
            f"Medians of {asked.rounds} loads. Goal: at most 0.5 of time and bytes.",
        ]
    )


@dataclass(frozen=True, slots=True)
class _Load:
    """The measurements of one cold load.

    Attributes:
        first: Seconds to the first chart, which may be the server's drawing.
        live: Seconds to the chart that answers the mouse.
        busy: Seconds of CPU of the page's main thread until then.
        megabytes: Data received until then.
    """

    first: float
    live: float
    busy: float
    megabytes: float

    @classmethod
    def median(cls, loads: Sequence[Self]) -> Self:
        return cls(*(statistics.median(values) for values in zip(*map(astuple, loads), strict=True)))

    def over(self, other: Self) -> str:
        ratios = [mine / theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)]
        return " | ".join(f"{ratio:.2f}" for ratio in ratios)

    def __str__(self) -> str:
        return f"{self.first:.2f} s | {self.live:.2f} s | {self.busy:.2f} s | {self.megabytes:.2f} MB"


def _visit(browser: Browser, url: str, ready: str) -> _Load:
    """Load a page in a fresh context, until ``ready`` is there."""
    context = browser.new_context()
    page = context.new_page()
    tools = context.new_cdp_session(page)
    tools.send("Network.enable")
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    received: list[float] = []
    tools.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    has_view = page.evaluate(HAS_FIRST_VIEW)
    page.wait_for_selector(ready)
    live = time.perf_counter() - began
    busy = page_metrics(tools)["TaskDuration"]
    first = (
        page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000")
        if has_view
        else live
    )
    context.close()
    return _Load(first, live, busy, sum(received) / 1e6)


@contextmanager
def _bare_dash(count: int, steps: int) -> Iterator[str]:
    """Run the smallest Dash page that shows as many points."""
    server = FastAPI()
    app = Dash("bare", server=server, add_log_handler=False)
    lines = [{"x": list(range(steps)), "y": [(7 * at + line) % 5 for at in range(steps)]} for line in range(count)]
    app.layout = html.Div(dcc.Graph(figure={"data": lines, "layout": {}}))
    running = uvicorn.Server(uvicorn.Config(server, port=PORT + 1, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        wait_until_served(f"http://127.0.0.1:{PORT + 1}/", thread.is_alive)
        yield f"http://127.0.0.1:{PORT + 1}/"
    finally:
        running.should_exit = True
        thread.join()
