"""Draws curves one below the other as a PNG, with Pillow."""

import importlib.util
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from monitor_server.plot_scale import spell_value
from monitor_server.text_safety.printable import printable

if TYPE_CHECKING:
    from PIL import ImageDraw

__all__ = ["PictureCurve", "can_draw", "draw"]

WIDTH, PANEL, TOP, BOTTOM = 720, 120, 40, 30  # pixels
LEFT, RIGHT = 78, 14
GAP, BREAK = 26, 5.0  # above a panel, for its name; the jump in steps at which a curve is interrupted
INK, FAINT, LINE, ALERT, PAPER = "#1a1d21", "#667085", "#2563eb", "#c2410c", "#ffffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureCurve:
    """One signal: ascending steps, shape [n], and their values, shape [n], which may include non-finite ones."""

    name: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]


def can_draw() -> bool:
    """Return whether Pillow is installed; ``rlvitals[notify]`` includes it."""
    return importlib.util.find_spec("PIL") is not None


def draw(title: str, curves: Sequence[PictureCurve], *, at: int) -> bytes:
    """Draw curves over one axis of steps, with a line at a step.

    Args:
        title: One line; characters that the font lacks are replaced.
        curves: At least one; values that are not finite are left out.
        at: The step of the line.

    Returns:
        A PNG of 720 pixels in width.
    """
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 - an optional dependency

    height = TOP + len(curves) * PANEL + BOTTOM
    image = Image.new("RGB", (WIDTH, height), PAPER)
    canvas = ImageDraw.Draw(image)
    canvas.text((LEFT, 10), _plain(title), fill=INK, font=ImageFont.load_default(18))
    font = ImageFont.load_default(13)
    canvas.font = font
    first = min(at, *(int(curve.steps[0]) for curve in curves))
    last = max(at, *(int(curve.steps[-1]) for curve in curves))
    for place, curve in enumerate(curves):
        _draw_panel(canvas, curve, top=TOP + place * PANEL, first=first, last=max(last, first + 1), at=at)
    axis = height - BOTTOM + 8
    canvas.text((LEFT, axis), f"step {first}", fill=FAINT)
    canvas.text((WIDTH - RIGHT, axis), str(last), fill=FAINT, anchor="ra")
    written = io.BytesIO()
    image.save(written, format="PNG", optimize=True)
    return written.getvalue()


def _draw_panel(
    canvas: "ImageDraw.ImageDraw", curve: PictureCurve, *, top: int, first: int, last: int, at: int
) -> None:
    upper, lower = top + GAP, top + PANEL - 8
    known = np.isfinite(curve.values)
    steps, values = curve.steps[known], curve.values[known]
    note = "" if known.all() else f"  (not finite: {int((~known).sum())})"
    canvas.text((LEFT, top + 6), _plain(curve.name) + note, fill=INK)
    canvas.line([(LEFT, lower), (WIDTH - RIGHT, lower)], fill="#d0d5dd")
    line = _across(np.array([at]), first, last)[0]
    canvas.line([(line, upper), (line, lower)], fill=ALERT, width=2)
    if not len(steps):
        return
    lowest, highest = float(values.min()), float(values.max())
    canvas.text((LEFT - 6, upper - 4), spell_value(highest), fill=FAINT, anchor="ra")
    canvas.text((LEFT - 6, lower - 12), spell_value(lowest), fill=FAINT, anchor="ra")
    # The halves are subtracted, because the difference of two large numbers may not be finite.
    span = highest / 2 - lowest / 2
    shares = (values / 2 - lowest / 2) / span if span > 0 else np.full(len(values), 0.5)
    across, down = _across(steps, first, last), lower - shares * (lower - upper)
    points = list(zip(across.tolist(), down.tolist(), strict=True))
    for part in np.split(np.arange(len(points)), _breaks(steps)):
        held = [points[place] for place in part]
        if len(held) > 1:
            canvas.line(held, fill=LINE, width=2, joint="curve")
        else:
            canvas.ellipse([held[0][0] - 2, held[0][1] - 2, held[0][0] + 2, held[0][1] + 2], fill=LINE)


def _across(steps: NDArray[np.int64], first: int, last: int) -> NDArray[np.float64]:
    return LEFT + (steps - first) / (last - first) * (WIDTH - RIGHT - LEFT)


def _breaks(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places before which many more steps are missing than usual."""
    strides = np.diff(steps)
    usual = float(np.median(strides)) if len(strides) else 1.0
    return np.flatnonzero(strides > BREAK * max(1.0, usual)) + 1


def _plain(given: str) -> str:
    """Return one line of the characters that the built-in font has."""
    return printable(given, longest=80).encode("latin-1", "replace").decode("latin-1")
