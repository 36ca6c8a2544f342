"""What the dashboard costs: page to first chart, bytes, a pushed step's way to the screen, zoom, and memory.

Needs chromium. Beside it stands the smallest Dash page with the same points in one graph, in the same minute and the
same browser: read ratios, for seconds on shared cores say little.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Self

import uvicorn
from dash import Dash, dcc, html
from fastapi import FastAPI
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

PORT = 8699
URL = f"http://127.0.0.1:{PORT}"
HAS_STEP = """(step) => { const graph = document.querySelector('#run-figure .js-plotly-plot');
    return graph && graph.data && graph.data.some((trace) => trace.x.at(-1) >= step); }"""
TRACE = ".scatterlayer .trace"
HAS_FIRST_VIEW = """() => new Promise((seen) => {
    const look = () => document.getElementById('first-view') ? seen(true)
        : document.readyState === 'complete' ? seen(false) : setTimeout(look, 5);
    look();
})"""
ZOOM = """async (steps) => {
    const graph = document.querySelector('#run-figure .js-plotly-plot'), taken = [];
    for (let at = 0; at < 10; at += 1) {
        const began = performance.now();
        await window.Plotly.relayout(graph, { 'xaxis.range': [0.05 * at * steps, 0.05 * (at + 1) * steps] });
        await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
        taken.push(performance.now() - began);
        await new Promise((rested) => setTimeout(rested, 1000));
    }
    await window.Plotly.relayout(graph, { 'xaxis.autorange': true });
    return taken;
}"""
PARTS = 6
FLEET_STEPS = 40  # of each run of the fleet
SIGNALS = ("likelihood/correct", "likelihood/incorrect", "reward/mean", "grad/norm", "entropy/mean", "ratio/max")


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000, help="runs of the fleet (1000)")
    parser.add_argument("--steps", type=int, default=100_000, help="steps of the long run (100000)")
    parser.add_argument("--signals", type=int, default=100, help="signals of the long run (100)")
    parser.add_argument("--rounds", type=int, default=3, help="loads of each page, of which the median counts (3)")
    parser.add_argument("--pushes", type=int, default=20, help="steps pushed into the open page (20)")
    parser.add_argument(
        "--live-steps",
        type=int,
        default=7_200,
        help="steps that arrive while the page is open (7200, an hour at 2 a second)",
    )
    parser.add_argument("--live-rate", type=float, default=20.0, help="how many of them arrive a second (20)")
    asked = parser.parse_args(arguments)
    path = shutil.which("chromium")
    if path is None:
        print("left out, for want of chromium: apt-get install chromium")
        return 0
    with _collector() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        names = (*SIGNALS, *(f"own/s{index}" for index in range(asked.signals - len(SIGNALS))))
        for index in range(asked.runs):
            _feed(f"run-{index}", 0, FLEET_STEPS)
        long = _feed("long", 0, asked.steps, names)
        _wait_for_step(long, asked.steps - 1)
        fleet = (f"fleet, {asked.runs:,} runs", asked.runs, FLEET_STEPS, URL, "#page .fleet-row")
        run = (
            f"run, {len(names)} × {asked.steps:,}",
            len(SIGNALS),
            asked.steps,
            f"{URL}/runs/{long}",
            f"#page {TRACE}",
        )
        print(f"{'cold load, medians':24}{'first chart':>13}{'live chart':>13}{'main thread':>13}{'received':>13}")
        for name, lines, points, address, ready in (fleet, run):
            with _bare_dash(lines, points) as bare:
                pairs = [(_visit(browser, bare, TRACE), _visit(browser, address, ready)) for _ in range(asked.rounds)]
            rows = [_Load.median([pair[side] for pair in pairs]) for side in (0, 1)]
            for label, load in zip(("bare Dash", "rlvitals"), rows, strict=True):
                print(f"{f'{name}: {label}' if label == 'bare Dash' else label:24}{load}")
            print(f"{'ratio':24}{rows[1].over(rows[0])}")
        page = browser.new_page()
        delays, requests = _pushes(page, "long", asked.steps, asked.pushes)
        print(
            f"\npushed step, commit to screen: median {statistics.median(delays):.2f} s, largest {max(delays):.2f} s"
            f" over {asked.pushes} steps; requests of the page meanwhile: {requests}"
        )
        tools = page.context.new_cdp_session(page)
        tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = _metrics(tools)["TaskDuration"]
        zooms = page.evaluate(ZOOM, asked.steps)
        busy = 1000 * (_metrics(tools)["TaskDuration"] - before) / len(zooms)
        print(
            f"zoom, asked to drawn: median {statistics.median(zooms):.0f} ms, largest {max(zooms):.0f} ms"
            f" over {len(zooms)}; main thread {busy:.0f} ms a zoom"
        )
        _memory(page, server, asked.steps + asked.pushes + 1, asked.live_steps, asked.live_rate)
        browser.close()
    return 0


@dataclass(frozen=True, slots=True)
class _Load:
    """What one cold load took.

    Attributes:
        first: Seconds to the first chart, which may be the server's drawing.
        live: Seconds to the chart that answers the mouse.
        busy: Seconds of CPU of the page's main thread until then.
        megabytes: What was received until then.
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
        return "".join(f"{ratio:13.2f}" for ratio in ratios)

    def __str__(self) -> str:
        return f"{self.first:11.2f} s{self.live:11.2f} s{self.busy:11.2f} s{self.megabytes:10.2f} MB"


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
    busy = _metrics(tools)["TaskDuration"]
    first = (
        page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000")
        if has_view
        else live
    )
    context.close()
    return _Load(first, live, busy, sum(received) / 1e6)


def _pushes(page: Page, run: str, first: int, count: int) -> tuple[list[float], int]:
    """Send steps one by one into an open page; give the seconds until each is drawn, and the page's requests."""
    run_id = _feed(run, first, first + 1)
    page.goto(f"{URL}/runs/{run_id}")
    page.wait_for_function(HAS_STEP, arg=first)
    page.wait_for_selector("#live-state[data-live=live]")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    delays = []
    for step in range(first + 1, first + 1 + count):
        _feed(run, step, step + 1)
        began = time.perf_counter()
        page.wait_for_function(HAS_STEP, arg=step)
        delays.append(time.perf_counter() - began)
    return delays, len(requests)


def _memory(page: Page, server: int, first: int, count: int, rate: float) -> None:
    """Send steps into the open page, and print its memory and the server's CPU, part by part."""
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    steps = max(1, round(count / PARTS))
    print(f"\n{f'steps at {rate:g} a second':24}{'memory':>13}{'nodes':>13}{'main thread':>16}{'server':>16}")
    for part in range(PARTS):
        cpu, busy = _cpu_seconds(server), _metrics(tools)["TaskDuration"]
        due = time.monotonic()
        for step in range(first + part * steps, first + (part + 1) * steps):
            _feed("long", step, step + 1)
            due = max(due + 1 / rate, time.monotonic() - 1)  # made up for, unless the machine is far behind
            page.wait_for_timeout(1000 * max(0.0, due - time.monotonic()))
        cpu, busy = (
            1000 * (_cpu_seconds(server) - cpu) / steps,
            1000 * (_metrics(tools)["TaskDuration"] - busy) / steps,
        )
        for _ in range(2):  # what finalisers hold is free after the second
            tools.send("HeapProfiler.collectGarbage")
        held = _metrics(tools)
        shown = f"{held['JSHeapUsedSize'] / 1e6:10.1f} MB{held['Nodes']:13.0f}{busy:8.1f} ms/step{cpu:8.1f} ms/step"
        print(f"{f'{part * steps:,} to {(part + 1) * steps:,}':24}{shown}")


def _metrics(tools: CDPSession) -> dict[str, float]:
    """Return Chromium's measurements of a page."""
    return {held["name"]: held["value"] for held in tools.send("Performance.getMetrics")["metrics"]}


def _cpu_seconds(process: int) -> float:
    """Return the CPU time of a process; 0 where the system does not show it."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait_for_step(run_id: str, step: int) -> None:
    """Wait until the collector has projected a step."""
    while True:
        with urllib.request.urlopen(f"{URL}/api/v1/runs/{run_id}") as answer:  # noqa: S310 - our own address
            if (json.load(answer)["last_step"] or 0) >= step:
                return
        time.sleep(0.5)


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
    _wait(f"http://127.0.0.1:{PORT + 1}/")
    yield f"http://127.0.0.1:{PORT + 1}/"
    running.should_exit = True
    thread.join()


@contextmanager
def _collector() -> Iterator[int]:
    """Run a collector with its dashboard on an empty store; give its process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"RLVITALS_DATABASE_URL": f"sqlite:///{folder}/bench.db", "RLVITALS_PORT": str(PORT)}
        server = subprocess.Popen([sys.executable, "-m", "monitor_server", "serve"], env=environment)
        try:
            _wait(f"{URL}/readyz")
            yield server.pid
        finally:
            server.terminate()
            server.wait()


def _wait(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url).close()  # noqa: S310 - our own address
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _feed(run: str, first: int, last: int, signals: Sequence[str] = SIGNALS) -> str:
    """Send steps [first, last) and give the run's id."""
    run_id = ""
    for start in range(first, last, 1000):
        records = [
            {
                "step": step,
                "scalars": {name: 0.5 + 0.1 * ((step * 7 + place) % 5) for place, name in enumerate(signals)},
            }
            for step in range(start, min(start + 1000, last))
        ]
        body = json.dumps({"schema_version": 1, "run": run, "capability": "L3", "records": records}).encode()
        request = urllib.request.Request(  # noqa: S310 - our own address
            f"{URL}/api/v1/ingest", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own address
            run_id = json.load(answer)["run_id"]
    return run_id


if __name__ == "__main__":
    raise SystemExit(main())
