"""Colours: in one place, readable, and apart for readers with a colour vision deficiency."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dashboard import theme

ASSETS = Path(theme.__file__).parent / "assets"

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
VISION = {
    "full": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
# Colours that differ by less than about 10 in CIE L*a*b* are hard to distinguish in neighbouring areas.
APART = 12.0


def linear(colour):
    channels = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = to_xyz @ rgb.clip(0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, other):
    light, dark = sorted((linear(c) @ np.array([0.2126, 0.7152, 0.0722]) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("vision", VISION)
def test_phases_that_follow_each_other_look_different(vision):
    """Under full colour vision, protanopia and deuteranopia."""
    order = ["warmup", "healthy", "stagnation", "decay", "acceleration", "collapsed"]
    for before, after in pairwise(order):
        seen = [lab(VISION[vision] @ linear(theme.PHASES[phase])) for phase in (before, after)]
        assert np.linalg.norm(seen[0] - seen[1]) > APART, (before, after)


@pytest.mark.parametrize("vision", VISION)
def test_the_two_lines_of_a_panel_look_different(vision):
    """The pair that carries the method: correct and incorrect responses."""
    seen = [lab(VISION[vision] @ linear(colour)) for colour in (theme.PRIMARY, theme.SECONDARY)]
    assert np.linalg.norm(seen[0] - seen[1]) > APART


@pytest.mark.parametrize("scheme", [theme.LIGHT, theme.DARK])
def test_text_stands_out_from_what_it_stands_on(scheme):
    """WCAG AA: 4.5 to 1 for text, on every surface."""
    for surface in ("canvas", "surface", "sunken"):
        for text in ("ink", "muted", "accent"):
            assert contrast(scheme[text], scheme[surface]) >= 4.5, (text, surface)


def test_both_schemes_define_the_same_colours():
    """Otherwise a colour of one scheme would appear in the other."""
    assert theme.LIGHT.keys() == theme.DARK.keys()


def test_the_dark_colours_are_for_screens_alone():
    """Browsers leave out the background on paper, and pale text on white cannot be read."""
    dark = f"--ink:{theme.DARK['ink']};"
    rules = [line for line in theme.style_sheet().splitlines() if dark in line]
    assert len(rules) == 2
    assert all(rule.startswith("@media screen") for rule in rules)


def test_the_style_sheet_names_no_colour_of_its_own():
    """All colours are defined in theme.py."""
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b", (ASSETS / "style.css").read_text())


def test_the_style_sheet_uses_only_defined_properties():
    """A browser reports no error for a misspelt custom property."""
    text = (ASSETS / "style.css").read_text()
    defined = set(re.findall(r"--([\w-]+)\s*:", theme.style_sheet() + text))
    assert set(re.findall(r"var\(--([\w-]+)", text)) <= defined


def test_each_phase_has_a_shape_of_its_own():
    """A reader who cannot distinguish colours can distinguish phases where their names are not read."""
    style = (ASSETS / "style.css").read_text()
    shapes = dict(re.findall(r'^\[data-phase="(\w+)"\]::before \{ clip-path: (.+?); \}$', style, flags=re.MULTILINE))
    assert shapes.keys() == theme.PHASES.keys()
    assert len(set(shapes.values())) == len(theme.PHASES)
