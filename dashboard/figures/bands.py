"""Draws phases as bands behind every panel and as a labelled strip above them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dashboard.collector_client.types.runs import PhaseItem
from dashboard.theme import BAND_OPACITY, label_colour, phase_colour

__all__ = ["Band", "band_shapes", "bands_of", "strip_labels"]

Figure = dict[str, object]

# The usual width of a chart, as in assets/run_figure.js, which places the names anew in charts of another width.
USUAL_PIXELS: Final = 850
PIXELS_PER_CHARACTER: Final = 6.4
LABEL_PADDING: Final = 8


@dataclass(frozen=True, slots=True)
class Band:
    """A phase over [from_step, to_step); the last band ends at the run's last step and grows with it."""

    phase: str
    from_step: float
    to_step: float
    is_current: bool


def bands_of(phases: Sequence[PhaseItem], last_step: int) -> list[Band]:
    """Divide the step axis: each phase lasts until the next one begins, so that there is no gap."""
    begins = [span["from_step"] for span in phases]
    ends = [*begins[1:], *(max(last_step, begin) for begin in begins[-1:])]
    return [
        Band(span["phase"], begin, end, is_current=index == len(begins) - 1)
        for index, (span, begin, end) in enumerate(zip(phases, begins, ends, strict=True))
    ]


def band_shapes(bands: Sequence[Band], strip: tuple[float, float], floor: float = 0.0) -> list[Figure]:
    """Return two rectangles for each band: a pale one behind the panels, a solid one in the strip.

    Args:
        bands: The bands, oldest first.
        strip: Bottom and top of the strip, as fractions of the plot's height.
        floor: The lower end of the pale rectangles.
    """
    return [
        {
            "type": "rect",
            "name": "current-band" if band.is_current else "band",
            "layer": "below",
            "xref": "x",
            "yref": "paper",
            "x0": band.from_step,
            "x1": band.to_step,
            "y0": low,
            "y1": high,
            "line": {"width": 0},
            "fillcolor": phase_colour(band.phase),
            "opacity": opacity,
        }
        for band in bands
        for low, high, opacity in ((floor, strip[0], BAND_OPACITY), (*strip, 1.0))
    ]


def strip_labels(bands: Sequence[Band], strip: tuple[float, float]) -> list[Figure]:
    """Return the name of each band inside the strip; a name is visible if it fits in a chart of the usual width."""
    steps = max(1.0, bands[-1].to_step - bands[0].from_step) if bands else 1.0
    return [
        {
            "name": "band-label",
            "text": band.phase,
            "xref": "x",
            "yref": "paper",
            "x": (band.from_step + band.to_step) / 2,
            "y": sum(strip) / 2,
            "yanchor": "middle",
            "showarrow": False,
            "visible": _fits(band, USUAL_PIXELS / steps),
            "font": {"size": 11, "color": label_colour(band.phase)},
        }
        for band in bands
    ]


def _fits(band: Band, pixels_per_step: float) -> bool:
    needed = len(band.phase) * PIXELS_PER_CHARACTER + LABEL_PADDING
    return (band.to_step - band.from_step) * pixels_per_step > needed
