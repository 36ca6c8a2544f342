"""``python -m benchmarks.pictures URL FOLDER``: a picture of every page of a dashboard, of the run of its demo.

Run `rlvitals demo` first, wait until its run has collapsed, and give its address. The recorded runs that come with
rlvitals and a few made-up runs are sent to it, so that the fleet has several runs. `make pictures` writes to
docs/images.
"""

import argparse
import json
import math
import random
import shutil
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page, sync_playwright

SIZES: Final = {"": (1440, 900), "-phone": (390, 844)}
CHART: Final = ".js-plotly-plot .main-svg"
MADE_UP: Final = {"search-qwen3-4b": 4, "math-qwen3-1.7b": 3, "tools-llama3-8b": 2, "code-dapo-7b": 2}  # name: seeds
DYING: Final = {"search-qwen3-4b-seed2", "code-dapo-7b-seed1"}
STEPS: Final = 90  # of each made-up run
SECONDS: Final = 41.0  # of each of their steps
DARK: Final = {"run-page"}  # pages that also have a picture in the dark scheme


def main() -> int:
    """Take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description=__doc__)
    parser.add_argument("url", help="the address of a collector with its dashboard")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    asked = parser.parse_args()
    path = shutil.which("chromium")
    if path is None:
        parser.error("chromium is needed: apt-get install chromium")
    _fill(asked.url)
    pages = _pages(asked.url)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for name, (address, ready) in pages.items():
            for suffix, (width, height) in SIZES.items():
                if suffix and name not in {"fleet-page", "run-page"}:
                    continue
                page = browser.new_page(viewport={"width": width, "height": height})
                page.set_default_timeout(120_000)
                _take(page, f"{asked.url}{address}", ready, asked.folder / f"{name}{suffix}.png")
                if name in DARK and not suffix:
                    page.emulate_media(color_scheme="dark")
                    page.wait_for_timeout(1500)  # charts are coloured anew
                    page.screenshot(path=asked.folder / f"{name}-dark.png")
                page.close()
        browser.close()
    print(f"{len(list(asked.folder.glob('*.png')))} pictures are in {asked.folder}")
    return 0


def _fill(url: str) -> None:
    """Send the recorded ablation and the made-up runs, and wait until all of them are processed."""
    _post(f"{url}/api/v1/sample/ablation", {})
    chance = random.Random(4)  # noqa: S311 - for pictures
    now = time.time()
    runs = [(name, seed) for name, seeds in MADE_UP.items() for seed in range(seeds)]
    for name, seed in runs:
        best, pace = chance.uniform(0.4, 0.8), chance.uniform(15, 40)
        sick = [max(0, step - 60) if f"{name}-seed{seed}" in DYING else 0 for step in range(STEPS + 1)]
        records = [
            {
                "step": step,
                "time": now - SECONDS * (STEPS - step),
                "scalars": {
                    "reward/mean": 0.1
                    + best * (1 - math.exp(-step / pace)) * math.exp(-sick[step] / 9)
                    + chance.gauss(0, 0.02),
                    "grad/norm": abs(chance.gauss(0.5, 0.06)) * math.exp(sick[step] / 8),
                    "entropy/mean": 0.4 + 0.5 * math.exp(-step / 60) + 0.09 * sick[step] + chance.gauss(0, 0.01),
                },
            }
            for step in range(1, STEPS + 1)
        ]
        batch = {"run": f"{name}-seed{seed}", "project": name.split("-")[0], "source": "made up", "records": records}
        _post(f"{url}/api/v1/ingest", {"schema_version": 1, **batch})
    while any(run["last_step"] is None for run in _items(f"{url}/api/v1/runs?limit=1000")):
        time.sleep(0.5)


def _post(address: str, body: dict[str, object]) -> None:
    data = json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})  # noqa: S310 - as below
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - the address that the person gave
        answer.read()


def _pages(url: str) -> dict[str, tuple[str, str]]:
    """Return the address of each page, and the selector of an element that is there once the page is drawn."""
    runs = _items(f"{url}/api/v1/runs?limit=1000")
    alerts = sorted(
        _items(f"{url}/api/v1/alerts?limit=1000"),
        key=lambda alert: (alert["project"] != "demo", alert["kind"] != "death_spiral"),
    )
    alert = next(alert for alert in alerts if alert["severity"] == "critical")
    run = alert["run_id"]
    compared = "&".join(f"run={held['id']}" for held in runs if held["name"].startswith("lambda-"))
    return {
        "fleet-page": ("/", "#fleet-grid .fleet-row"),
        "run-page": (f"/runs/{run}", f"#run-figure {CHART}"),
        "workspace": (f"/runs/{run}?smoothing=0.9#workspace", f"[data-panel] {CHART}"),
        "alert-page": (f"/runs/{run}/alerts/{alert['id']}", ".history"),
        "responses-page": (
            f"/runs/{_with_responses(url, [run, *(held['id'] for held in runs)])}/responses?order=pairs",
            "#responses-list .response",
        ),
        "compare-page": (f"/compare?{compared}&smoothing=0.8", f".compare-chart {CHART}"),
        "settings-page": ("/settings", "#keys-list > *"),
    }


def _take(page: Page, address: str, ready: str, out: Path) -> None:
    page.goto(address)
    page.locator("h1").first.wait_for(state="attached")
    if "#workspace" in address:
        page.locator("#workspace").evaluate("(element) => window.scrollTo(0, element.offsetTop - 60)")
    page.locator(ready).first.wait_for()
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(1500)  # charts below the first are drawn
    page.screenshot(path=out)


def _with_responses(url: str, runs: list[str]) -> str:
    """Return the first of the runs that has sampled responses, or the first one where none has."""
    return next((run for run in runs if _items(f"{url}/api/v1/runs/{run}/responses?limit=1")), runs[0])


def _items(address: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - the address that the person gave
        items: list[dict[str, Any]] = json.load(answer)["items"]
    return items


if __name__ == "__main__":
    raise SystemExit(main())
