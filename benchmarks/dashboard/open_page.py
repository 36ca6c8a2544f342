"""A page that stays open: a pushed step's way to the screen, a zoom, and memory while steps arrive."""

import argparse
import statistics
import time

from playwright.sync_api import Browser, Page

from benchmarks.dashboard.collector import URL, feed, feed_long, newest_steps
from benchmarks.dashboard.page_metrics import held_bytes, page_metrics
from benchmarks.service.processor_time import cpu_seconds

__all__ = ["measure_live", "measure_memory"]

HAS_STEP = """(step) => { const graph = document.querySelector('#run-figure .js-plotly-plot');
    return graph && graph.data && graph.data.some((trace) => trace.x.at(-1) >= step); }"""
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


def measure_live(browser: Browser, _server: int, asked: argparse.Namespace) -> str:
    """Return the table of pushed steps and zooms on the page of the long run."""
    feed_long(asked)
    page = browser.new_page()
    first = newest_steps()["long"] + 1
    delays, requests = _pushes(page, "long", first, asked.pushes)
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = page_metrics(tools)["TaskDuration"]
    zooms = page.evaluate(ZOOM, asked.steps)
    busy = (page_metrics(tools)["TaskDuration"] - before) / len(zooms)
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


def _pushes(page: Page, run: str, first: int, count: int) -> tuple[list[float], int]:
    """Send steps one by one into an open page; give the seconds until each is drawn, and the page's requests."""
    run_id = feed(run, first, first + 1)
    page.goto(f"{URL}/runs/{run_id}")
    page.wait_for_function(HAS_STEP, arg=first)
    page.wait_for_selector("#live-state[data-live=live]")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    delays = []
    for step in range(first + 1, first + 1 + count):
        feed(run, step, step + 1)
        began = time.perf_counter()
        page.wait_for_function(HAS_STEP, arg=step)
        delays.append(time.perf_counter() - began)
    return delays, len(requests)


def measure_memory(browser: Browser, server: int, asked: argparse.Namespace) -> str:
    """Send steps into the open page, and measure its memory and the server's CPU, part by part."""
    run_id = feed_long(asked)
    page = browser.new_page()
    page.goto(f"{URL}/runs/{run_id}")
    page.wait_for_function(HAS_STEP, arg=asked.steps - 1)
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    steps, first = max(1, round(asked.live_steps / PARTS)), newest_steps()["long"] + 1
    rows = []
    for part in range(PARTS):
        cpu, busy = cpu_seconds(server), page_metrics(tools)["TaskDuration"]
        due = time.monotonic()
        held = []
        for step in range(first + part * steps, first + (part + 1) * steps):
            feed("long", step, step + 1)
            if step % max(1, steps // SAMPLES) == 0:
                held.append(held_bytes(tools))
            due = max(due + 1 / asked.live_rate, time.monotonic() - 1)  # unless the machine is far behind
            page.wait_for_timeout(1000 * max(0.0, due - time.monotonic()))
        cpu, busy = (
            1000 * (cpu_seconds(server) - cpu) / steps,
            1000 * (page_metrics(tools)["TaskDuration"] - busy) / steps,
        )
        rows.append(
            f"| {part * steps:,} to {(part + 1) * steps:,} | {min(held) / 1e6:.1f} MB | {max(held) / 1e6:.1f} MB |"
            f" {page_metrics(tools)['Nodes']:.0f} | {busy:.1f} ms | {cpu:.1f} ms |"
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
