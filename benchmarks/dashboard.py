"""What the dashboard costs: page to first graph, bytes over the wire, and a pushed step's way to the screen.

Needs chromium. Beside it stands the smallest Dash page with the same points in one graph, in the same minute and the
same browser: read ratios, for seconds on shared cores say little.
"""

import argparse
import json
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

import uvicorn
from dash import Dash, dcc, html
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, sync_playwright

PORT = 8699
URL = f"http://127.0.0.1:{PORT}"
HAS_STEP = """(step) => { const graph = document.querySelector('#run-figure .js-plotly-plot');
    return graph && graph.data && graph.data.some((trace) => trace.x.at(-1) >= step); }"""
TRACE = ".scatterlayer .trace"
FLEET_STEPS = 40  # of each run of the fleet
SIGNALS = ("likelihood/correct", "likelihood/incorrect", "reward/mean", "grad/norm", "entropy/mean", "ratio/max")


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000, help="runs of the fleet (1000)")
    parser.add_argument("--steps", type=int, default=100_000, help="steps of the long run (100000)")
    parser.add_argument("--signals", type=int, default=100, help="signals of the long run (100)")
    parser.add_argument("--pushes", type=int, default=20, help="steps pushed into the open page (20)")
    asked = parser.parse_args(arguments)
    path = shutil.which("chromium")
    if path is None:
        print("left out, for want of chromium: apt-get install chromium")
        return 0
    with _collector(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        names = (*SIGNALS, *(f"own/s{index}" for index in range(asked.signals - len(SIGNALS))))
        for index in range(asked.runs):
            _feed(f"run-{index}", 0, FLEET_STEPS)
        long = _feed("long", 0, asked.steps, names)
        rows = []
        for name, lines, points, address, ready in (
            (f"fleet, {asked.runs:,} runs", asked.runs, FLEET_STEPS, URL, ".fleet-row"),
            (f"run, {len(names)} × {asked.steps:,}", len(SIGNALS), asked.steps, f"{URL}/runs/{long}", TRACE),
        ):
            with _bare_dash(lines, points) as bare:
                rows.append((name, _visit(browser, bare, TRACE), _visit(browser, address, ready)))
        print(f"{'cold load to first chart':28}{'bare Dash':>20}{'rlvitals':>20}{'ratio':>16}")
        for name, bare_page, ours in rows:
            shown = [f"{seconds:.2f} s, {megabytes:.2f} MB" for seconds, _, megabytes in (bare_page, ours)]
            ratio = f"{ours[0] / bare_page[0]:.2f}, {ours[2] / bare_page[2]:.2f}"
            print(f"{name:28}{shown[0]:>20}{shown[1]:>20}{ratio:>16}")
        delays, requests = _pushes(browser.new_page(), "long", asked.steps, asked.pushes)
        print(
            f"\npushed step, commit to screen: median {statistics.median(delays):.2f} s, largest {max(delays):.2f} s"
            f" over {asked.pushes} steps; requests of the page meanwhile: {requests}"
        )
        browser.close()
    return 0


def _visit(browser: Browser, url: str, ready: str) -> tuple[float, int, float]:
    """Load a page in a fresh context; give seconds to ``ready``, resources and megabytes received."""
    context = browser.new_context()
    page = context.new_page()
    traffic = context.new_cdp_session(page)
    traffic.send("Network.enable")
    received: list[float] = []
    traffic.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    began = time.perf_counter()
    page.goto(url)
    page.wait_for_selector(ready)
    seconds = time.perf_counter() - began
    context.close()
    return seconds, len(received), sum(received) / 1e6


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
def _collector() -> Iterator[None]:
    """Run a collector with its dashboard on an empty store."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"RLVITALS_DATABASE_URL": f"sqlite:///{folder}/bench.db", "RLVITALS_PORT": str(PORT)}
        server = subprocess.Popen([sys.executable, "-m", "monitor_server", "serve"], env=environment)
        try:
            _wait(f"{URL}/readyz")
            yield
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
