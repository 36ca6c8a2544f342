"""The parts of a chart's layout that every chart has: colours, fonts, hover label and value axis."""

from collections.abc import Mapping
from typing import Final

from dashboard.theme import FONT, LIGHT

__all__ = ["AXIS", "base_layout", "value_axis"]

Figure = dict[str, object]

AXIS: Final[Figure] = {
    "tickfont": {"size": 11, "color": LIGHT["muted"]},
    "gridcolor": LIGHT["grid"],
    "zeroline": False,
}


def base_layout(margin: Mapping[str, int], **hover_label: object) -> Figure:
    """Return the layout that every chart begins with; its colours are those of the light scheme.

    Args:
        margin: The space around the plot in pixels: ``l``, ``r``, ``t``, ``b`` and ``pad``.
        hover_label: More properties of the hover label.
    """
    return {
        "margin": margin,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": LIGHT["ink"]},
        "hovermode": "x unified",
        "hoverlabel": {
            "font": {"size": 11.5, "color": LIGHT["ink"]},
            "bgcolor": LIGHT["surface"],
            "bordercolor": LIGHT["line"],
            **hover_label,
        },
        "showlegend": False,
    }


def value_axis(*, ticks: int, is_log: bool = False, has_digits: bool = False) -> Figure:
    """Return a vertical axis that a reader cannot zoom.

    Args:
        ticks: The largest number of ticks.
        is_log: Whether the axis is logarithmic.
        has_digits: Whether a logarithmic axis has ticks at 1, 2 and 5 of each decade. Else Plotly chooses them.
    """
    return {
        **AXIS,
        "type": "log" if is_log else "linear",
        "nticks": ticks,
        "tickformat": "~g",
        "fixedrange": True,
        **({"dtick": "D2", "tickmode": "linear" if has_digits else "auto"} if is_log else {}),
    }
