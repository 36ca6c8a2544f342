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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Self

import uvicorn
from dash import Dash, dcc, html
from fastapi import FastAPI
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from benchmarks.conditions import conditions

KEPT = Path("build/dashboard")
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
PARTS = 4
SAMPLES = 24  # of the memory, in each part
FLEET_STEPS = 40  # of each run of the fleet
SIGNALS = ("likelihood/correct", "likelihood/incorrect", "reward/mean", "grad/norm", "entropy/mean", "ratio/max")


def main(arguments: list[str] | None = None) -> int:
    """Measure what was not measured yet, print the tables, and write the page if asked for."""
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
    parser.add_argument("--keep", type=Path, default=KEPT, help="folder of finished tables; delete it to start anew")
    parser.add_argument("--only", nargs="*", choices=TABLES, help="these tables alone")
    parser.add_argument("--write", type=Path, help="also write the page to this Markdown file")
    asked = parser.parse_args(arguments)
    path = shutil.which("chromium")
    if path is None:
        print("left out, for want of chromium: apt-get install chromium")
        return 0
    asked.keep.mkdir(parents=True, exist_ok=True)
    with _collector() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, measure in TABLES.items():
            file = asked.keep / f"{name}.md"
            if file.exists() or (asked.only and name not in asked.only):
                continue
            begin = time.monotonic()
            table = measure(browser, server, asked)
            file.write_text(f"{table}\n\n{conditions(time.monotonic() - begin)}\n", encoding="utf-8")
            print(file.read_text(encoding="utf-8"), flush=True)
        browser.close()
    if asked.write:
        page = Path(__file__).with_name("dashboard_page.md").read_text(encoding="utf-8").rstrip()
        kept = [file for name in TABLES if (file := asked.keep / f"{name}.md").exists()]
        tables = [file.read_text(encoding="utf-8").rstrip() for file in kept]
        asked.write.write_text("\n\n".join([page, *tables]) + "\n", encoding="utf-8")
    return 0


def _names(asked: argparse.Namespace) -> tuple[str, ...]:
    """Return the signals of the long run."""
    return (*SIGNALS, *(f"own/s{index}" for index in range(asked.signals - len(SIGNALS))))


def _fleet(browser: Browser, _server: int, asked: argparse.Namespace) -> str:
    for index in range(asked.runs):
        _feed(f"run-{index}", 0, FLEET_STEPS)
    loads = _loads(browser, asked, URL, "#page .fleet-row", lines=asked.runs, points=FLEET_STEPS)
    return f"### Cold load of a fleet of {asked.runs:,} runs\n\n{loads}"


def _long_run(browser: Browser, _server: int, asked: argparse.Namespace) -> str:
    address = f"{URL}/runs/{_feed_long(asked)}"
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


def _live(browser: Browser, _server: int, asked: argparse.Namespace) -> str:
    _feed_long(asked)
    page = browser.new_page()
    first = _newest_step("long") + 1
    delays, requests = _pushes(page, "long", first, asked.pushes)
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _metrics(tools)["TaskDuration"]
    zooms = page.evaluate(ZOOM, asked.steps)
    busy = (_metrics(tools)["TaskDuration"] - before) / len(zooms)
    page.close()
    return "\n".join(
        [
            f"### A pushed step, and a zoom, on the page of the long run ({asked.steps:,} steps)",
            "",
            "| | median | largest | goal |",
            "|---|---|---|---|",
            (
                f"| commit of a step until it is drawn, {asked.pushes} steps | {statistics.median(delays):.2f} s |"
                f" {max(delays):.2f} s | within 1 s |"
            ),
            (
                f"| zoom, asked until drawn, {len(zooms)} zooms | {statistics.median(zooms):.0f} ms |"
                f" {max(zooms):.0f} ms | in 150 ms |"
            ),
            "",
            (
                f"Requests of the page while the steps were pushed: {requests}. "
                f"The main thread works {1000 * busy:.0f} ms on a zoom."
            ),
        ]
    )


def _feed_long(asked: argparse.Namespace) -> str:
    """Send the long run unless it is there, wait until it is projected, and return its id."""
    run_id = _feed("long", 0, 1, _names(asked))
    if _newest_step("long") < asked.steps - 1:
        _feed("long", 1, asked.steps, _names(asked))
        while _newest_step("long") < asked.steps - 1:
            time.sleep(0.5)
    return run_id


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


def _memory(browser: Browser, server: int, asked: argparse.Namespace) -> str:
    """Send steps into the open page, and measure its memory and the server's CPU, part by part."""
    run_id = _feed_long(asked)
    page = browser.new_page()
    page.goto(f"{URL}/runs/{run_id}")
    page.wait_for_function(HAS_STEP, arg=asked.steps - 1)
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    steps, first = max(1, round(asked.live_steps / PARTS)), _newest_step("long") + 1
    rows = []
    for part in range(PARTS):
        cpu, busy = _cpu_seconds(server), _metrics(tools)["TaskDuration"]
        due = time.monotonic()
        held = []
        for step in range(first + part * steps, first + (part + 1) * steps):
            _feed("long", step, step + 1)
            if step % max(1, steps // SAMPLES) == 0:
                held.append(_held_bytes(tools))
            due = max(due + 1 / asked.live_rate, time.monotonic() - 1)  # unless the machine is far behind
            page.wait_for_timeout(1000 * max(0.0, due - time.monotonic()))
        cpu, busy = (
            1000 * (_cpu_seconds(server) - cpu) / steps,
            1000 * (_metrics(tools)["TaskDuration"] - busy) / steps,
        )
        rows.append(
            f"| {part * steps:,} to {(part + 1) * steps:,} | {min(held) / 1e6:.1f} MB | {max(held) / 1e6:.1f} MB |"
            f" {_metrics(tools)['Nodes']:.0f} | {busy:.1f} ms | {cpu:.1f} ms |"
        )
    page.close()
    return "\n".join(
        [
            (
                f"### The page of a run of {asked.signals} signals and {asked.steps:,} steps"
                f" while {asked.live_steps:,} more arrive, {asked.live_rate:g} a second"
            ),
            "",
            "| steps | memory, lowest | highest | nodes | main thread, a step | server's CPU, a step |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            (
                "Goal: memory flat, and the cost of a step independent of history. Memory rises while steps are"
                " appended, and falls where the server thins a line that has twice the points of a new one."
            ),
        ]
    )


def _held_bytes(tools: CDPSession) -> float:
    """Return the bytes that the page's JavaScript holds, without its garbage."""
    for _ in range(2):  # what finalisers hold is free after the second
        tools.send("HeapProfiler.collectGarbage")
    return _metrics(tools)["JSHeapUsedSize"]


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


def _newest_step(name: str) -> int:
    """Return the newest step of a run that the collector has projected; -1 before the first."""
    with urllib.request.urlopen(f"{URL}/api/v1/runs?limit=1000") as answer:  # noqa: S310 - our own address
        steps = [run["last_step"] for run in json.load(answer)["items"] if run["name"] == name]
    return -1 if not steps or steps[0] is None else int(steps[0])


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


TABLES: dict[str, Callable[[Browser, int, argparse.Namespace], str]] = {
    "run": _long_run,
    "live": _live,
    "memory": _memory,
    "fleet": _fleet,
}


if __name__ == "__main__":
    raise SystemExit(main())
