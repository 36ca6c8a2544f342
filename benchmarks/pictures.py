"""``python -m benchmarks.pictures URL FOLDER``: a picture of every page of a dashboard, of its most severe run.

Run `rlvitals demo` first, wait for its alerts, and give its address. `make pictures` writes to docs/images.
"""

import argparse
import json
import shutil
import urllib.request
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page, sync_playwright

SIZES: Final = {"": (1440, 900), "-phone": (390, 844)}
CHART: Final = ".js-plotly-plot .main-svg"


def main() -> int:
    """Take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description=__doc__)
    parser.add_argument("url", help="the address of a collector with its dashboard")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    asked = parser.parse_args()
    path = shutil.which("chromium")
    if path is None:
        parser.error("chromium is needed: apt-get install chromium")
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
                page.close()
        browser.close()
    print(f"{len(list(asked.folder.glob('*.png')))} pictures are in {asked.folder}")
    return 0


def _pages(url: str) -> dict[str, tuple[str, str]]:
    """Return the address of each page, and what stands on it once it is drawn."""
    runs = _items(f"{url}/api/v1/runs?limit=1000")
    alerts = sorted(_items(f"{url}/api/v1/alerts?limit=1000"), key=lambda alert: alert["kind"] != "death_spiral")
    alert = next(alert for alert in alerts if alert["severity"] == "critical")
    run = alert["run_id"]
    compared = "&".join(f"run={each}" for each in [run, *(held["id"] for held in runs if held["id"] != run)][:4])
    return {
        "fleet-page": ("/", "#fleet-grid .fleet-row"),
        "run-page": (f"/runs/{run}", f"#run-figure {CHART}"),
        "workspace": (f"/runs/{run}?smoothing=0.9#workspace", f"[data-panel] {CHART}"),
        "alert-page": (f"/runs/{run}/alerts/{alert['id']}", ".history"),
        "responses-page": (
            f"/runs/{_with_responses(url, [run, *(held['id'] for held in runs)])}/responses",
            "#responses-list > *",
        ),
        "compare-page": (f"/compare?{compared}", f".compare-chart {CHART}"),
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
