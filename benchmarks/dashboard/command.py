"""The cost of the dashboard: time to the first chart, bytes, a pushed step's way to the screen, zoom, and memory.

It needs Chromium. The smallest Dash page with the same points in one graph is measured in the same minute and the same
browser. Read the ratios, because seconds on shared cores vary much.
"""

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from benchmarks.conditions import conditions
from benchmarks.dashboard.cold_load import measure_fleet, measure_long_run
from benchmarks.dashboard.collector import served_dashboard
from benchmarks.dashboard.open_page import measure_live, measure_memory
from benchmarks.writing import write_whole

KEPT = Path("build/dashboard")
TABLES: dict[str, Callable[[Browser, int, argparse.Namespace], str]] = {
    "run": measure_long_run,
    "live": measure_live,
    "memory": measure_memory,
    "fleet": measure_fleet,
}


def main(arguments: list[str] | None = None) -> int:
    """Make the missing measurements, print the tables, and write the page if requested."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000, help="runs of the fleet (1000)")
    parser.add_argument("--steps", type=int, default=100_000, help="steps of the long run (100000)")
    parser.add_argument("--signals", type=int, default=100, help="signals of the long run (100)")
    parser.add_argument("--rounds", type=int, default=3, help="loads of each page; the tables show the median (3)")
    parser.add_argument("--pushes", type=int, default=20, help="steps pushed into the open page (20)")
    parser.add_argument(
        "--live-steps",
        type=int,
        default=7_200,
        help="steps that arrive while the page is open (7200, an hour at 2 a second)",
    )
    parser.add_argument(
        "--live-rate", type=float, default=20.0, help="number of these steps that arrive per second (20)"
    )
    parser.add_argument("--keep", type=Path, default=KEPT, help="folder of finished tables; delete it to start anew")
    parser.add_argument("--only", nargs="*", choices=TABLES, help="measure only these tables")
    parser.add_argument("--write", type=Path, help="also write the page to this Markdown file")
    asked = parser.parse_args(arguments)
    path = shutil.which("chromium")
    if path is None:
        print("left out, because chromium is not installed: apt-get install chromium")
        return 0
    asked.keep.mkdir(parents=True, exist_ok=True)
    with served_dashboard() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, measure in TABLES.items():
            file = asked.keep / f"{name}.md"
            if file.exists() or (asked.only and name not in asked.only):
                continue
            begin = time.monotonic()
            table = measure(browser, server, asked)
            write_whole(file, f"{table}\n\n{conditions(time.monotonic() - begin)}\n")
            print(file.read_text(encoding="utf-8"), flush=True)
        browser.close()
    if asked.write:
        page = Path(__file__).with_name("page.md").read_text(encoding="utf-8").rstrip()
        kept = [file for name in TABLES if (file := asked.keep / f"{name}.md").exists()]
        tables = [file.read_text(encoding="utf-8").rstrip() for file in kept]
        write_whole(asked.write, "\n\n".join([page, *tables]) + "\n")
    return 0
