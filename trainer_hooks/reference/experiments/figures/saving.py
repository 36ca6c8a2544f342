"""Saves a figure as an HTML page that fetches plotly.js, and as a PNG that a headless Chromium draws."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["BROWSERS", "PictureError", "write_page", "write_picture"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SCALE = 1.25
LIMIT_SECONDS = 120


class PictureError(RuntimeError):
    """The browser has not drawn the picture; the message has its words, or the time that it had."""


def write_page(figure: "go.Figure", path: Path, *, offline: bool = False) -> None:
    """Write a figure as an HTML page.

    Args:
        figure: The figure.
        path: The file to write.
        offline: Put plotly.js into the page (5 MB) instead of fetching it from its public address.
    """
    name = path.stem
    figure.write_html(path, include_plotlyjs=True if offline else "cdn", div_id=name, config={"displaylogo": False})


def write_picture(figure: "go.Figure", path: Path) -> bool:
    """Write a figure as PNG; return whether there was a browser to draw it.

    Raises:
        PictureError: If the browser returned no picture, or none in time.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "figure.html"
        figure.write_html(page, include_plotlyjs=True, config={"staticPlot": True})
        taken = Path(folder) / "figure.png"
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
            f"--force-device-scale-factor={SCALE}",
            f"--window-size={figure.layout.width + 16},{figure.layout.height + 16}",
            "--virtual-time-budget=10000",
            f"--screenshot={taken}",
            page.as_uri(),
        ]
        try:
            done = subprocess.run(  # noqa: S603 - a browser found on the path, on a page that we wrote
                command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise PictureError(
                f"{browser} must draw {path.stem} within {LIMIT_SECONDS} s; draw it again when the machine is less busy"
            ) from None
        if not taken.exists():
            raise PictureError(f"{browser} must give a picture of {path.stem}, got: {done.stderr.strip()[-500:]}")
        shutil.copyfile(taken, path)
    return True
