"""``python -m benchmarks.screenshot URL OUT.png``: a picture of a page of the dashboard, taken when it is drawn."""

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright


def main() -> int:
    """Take the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screenshot", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", default="1440x900", help="width and height of the window (1440x900)")
    parser.add_argument("--scale", type=float, default=1.0, help="pixels of the picture per pixel of the page (1)")
    parser.add_argument("--full", action="store_true", help="the whole page, not the window alone")
    parser.add_argument("--dark", action="store_true", help="the dark colour scheme")
    asked = parser.parse_args()
    path = shutil.which("chromium")
    if path is None:
        parser.error("chromium is needed: apt-get install chromium")
    width, height = map(int, asked.size.split("x"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": width, "height": height},
            device_scale_factor=asked.scale,
            color_scheme="dark" if asked.dark else "light",
        )
        page.goto(asked.url)
        page.wait_for_selector("#page > :not(.loading)")
        if "/runs/" in asked.url and "/alerts/" not in asked.url:
            page.wait_for_selector("#run-figure .scatterlayer .trace")
        page.evaluate("document.fonts.ready")
        page.wait_for_timeout(500)  # transitions of the page end
        page.screenshot(path=asked.out, full_page=asked.full)
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
