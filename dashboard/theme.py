"""Defines every colour and font of the dashboard; the figures and the style sheet both take them from here.

No phase and no severity is shown by its colour alone; its name is always beside it. The phase colours differ in
lightness as well as hue, so that readers with red-green colour blindness can tell them apart
(tests/dashboard/test_theme.py).
"""

from collections.abc import Mapping
from typing import Final

__all__ = [
    "BAND_OPACITY",
    "DARK",
    "FONT",
    "LIGHT",
    "PHASES",
    "PRIMARY",
    "SECONDARY",
    "SEVERITIES",
    "STATUSES",
    "label_colour",
    "phase_colour",
    "style_sheet",
]

FONT: Final = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'Liberation Sans', Arial, sans-serif"
MONOSPACE: Final = "ui-monospace, 'SF Mono', Menlo, Consolas, 'Liberation Mono', monospace"

PHASES: Final[Mapping[str, str]] = {
    "warmup": "#8496b0",
    "healthy": "#17967f",
    "stagnation": "#e9bf3c",
    "decay": "#ee8432",
    "acceleration": "#cf2f45",
    "collapsed": "#7440ad",
    "unknown": "#b4bcc8",
}
SEVERITIES: Final[Mapping[str, str]] = {"info": "#5b7aa8", "warning": "#c9680e", "critical": "#cf2f45"}
STATUSES: Final[Mapping[str, str]] = {
    "running": "#17967f",
    "finished": "#5b7aa8",
    "stopped": "#8496b0",
    "stalled": "#c9680e",
    "lost": "#cf2f45",
}
OUTCOMES: Final[Mapping[str, str]] = {"taken": "#2c6bd6", "dry_run": "#8496b0", "refused": "#c9680e"}
BAND_OPACITY: Final = 0.13
FAMILIES: Final = {"phase": PHASES, "severity": SEVERITIES, "status": STATUSES, "outcome": OUTCOMES}
FIGURE_COLOURS: Final = ("ink", "muted", "faint", "grid", "surface", "line", "primary", "secondary")
PALE_PHASES: Final = frozenset({"warmup", "stagnation", "decay", "unknown"})

LIGHT: Final[Mapping[str, str]] = {
    "canvas": "#f5f6f8",
    "surface": "#ffffff",
    "sunken": "#eef0f4",
    "ink": "#182130",
    "muted": "#566174",
    "faint": "#5f697b",
    "line": "#e1e5eb",
    "grid": "#e6e9ee",
    "accent": "#2457c5",
    "primary": "#2c6bd6",
    "secondary": "#b5541c",
    "shadow": "0 1px 2px rgb(20 30 50 / 6%), 0 4px 16px rgb(20 30 50 / 4%)",
}
DARK: Final[Mapping[str, str]] = {
    "canvas": "#0e131b",
    "surface": "#161d28",
    "sunken": "#1e2734",
    "ink": "#e7ecf3",
    "muted": "#a3afc0",
    "faint": "#96a2b3",
    "line": "#273140",
    "grid": "#26303e",
    "accent": "#7aa5ff",
    "primary": "#5d96f7",
    "secondary": "#e38d4f",
    "shadow": "0 1px 2px rgb(0 0 0 / 40%)",
}

PRIMARY: Final = LIGHT["primary"]
SECONDARY: Final = LIGHT["secondary"]


def phase_colour(phase: str) -> str:
    """Return the colour of a phase; a phase that is not in the table has the colour of ``unknown``."""
    return PHASES.get(phase, PHASES["unknown"])


def label_colour(phase: str) -> str:
    """Return the colour of text on the background of a phase's colour."""
    return "#1a1208" if phase in PALE_PHASES or phase not in PHASES else "#fefdfb"


def style_sheet() -> str:
    """Return the colours and fonts as CSS custom properties, light and dark, for assets/*.css.

    The system chooses between light and dark, unless the attribute ``data-theme`` of the root does (assets/theme.js).
    Paper is light.
    """
    fixed = {
        "font": FONT,
        "monospace": MONOSPACE,
        **{f"severity-{name}": colour for name, colour in SEVERITIES.items()},
        **{f"status-{name}": colour for name, colour in STATUSES.items()},
        **{f"phase-{name}": colour for name, colour in PHASES.items()},
    }
    tints = [
        f'[data-{family}="{name}"]{{--tint:{colour}}}'
        for family, colours in FAMILIES.items()
        for name, colour in colours.items()
    ]
    return "\n".join(
        [
            f":root{{color-scheme:light dark;{_properties(fixed | dict(LIGHT))}}}",
            f"@media screen and (prefers-color-scheme: dark){{:root:not([data-theme]){{{_properties(DARK)}}}}}",
            f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{_properties(DARK)}}}}}",
            ":root[data-theme=light]{color-scheme:light}",
            *tints,
            *_figure_rules(),
        ]
    )


def _figure_rules() -> list[str]:
    """Return rules that colour figures by the scheme: Plotly writes the light colours inline, hence `!important`."""
    channels = {name: ", ".join(str(int(LIGHT[name][at : at + 2], 16)) for at in (1, 3, 5)) for name in FIGURE_COLOURS}
    return [
        f'.js-plotly-plot [style*="{part}{written}"]{{{part}:var(--{name}) !important}}'
        for name, rgb in channels.items()
        for part in ("fill", "stroke")
        for written in (f": rgb({rgb})", f":{LIGHT[name]}")
    ]


def _properties(values: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in values.items())
