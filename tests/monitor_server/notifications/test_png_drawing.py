"""The picture of a message: any numbers can be drawn, and each element is at its place."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from monitor_server.notifications.messages.png_drawing import ALERT, LINE, PANEL, TOP, WIDTH, PictureCurve, draw

BLUE = tuple(int(LINE[place : place + 2], 16) for place in (1, 3, 5))


def pixels(png):
    """Return the picture as numbers, shape [rows, columns, 3]."""
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))


def blue_rows(picture, column):
    """Return the rows in which a column is drawn in the colour of the curve."""
    return np.flatnonzero((picture[:, column] == BLUE).all(axis=1))


@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(st.floats(), min_size=1, max_size=40),
    begin=st.integers(0, 2**40),
    at=st.integers(0, 2**40),
    name=st.text(max_size=30),
)
def test_any_numbers_and_names_can_be_drawn(values, begin, at, name):
    """NaN, infinite, huge and equal values, any step and any name give a picture of the same size."""
    curve = PictureCurve(name=name, steps=begin + 3 * np.arange(len(values)), values=np.array(values))
    assert pixels(draw(name, [curve], at=at)).shape == (TOP + PANEL + 30, WIDTH, 3)


def test_a_curve_rises_from_the_bottom_to_the_top_of_its_panel():
    """The first value lies at the lowest row of its panel and the last at the highest."""
    curve = PictureCurve(name="reward/mean", steps=np.arange(101), values=np.linspace(0.0, 1.0, 101))
    picture = pixels(draw("a rise", [curve], at=50))
    assert blue_rows(picture, 80).mean() > blue_rows(picture, 390 - 20).mean() > blue_rows(picture, WIDTH - 17).mean()


@pytest.mark.parametrize("at", [0, 100])
def test_the_line_of_the_alert_lies_in_the_picture(at):
    """This holds also where no curve reaches its step, on either side."""
    curve = PictureCurve(name="reward/mean", steps=np.arange(40, 60), values=np.ones(20))
    picture = pixels(draw("a late signal", [curve], at=at))
    colour = tuple(int(ALERT[place : place + 2], 16) for place in (1, 3, 5))
    columns = np.flatnonzero((picture[TOP + 60] == colour).all(axis=1))
    assert len(columns)
    assert columns.min() >= 70
    assert columns.max() <= WIDTH - 8


def test_a_curve_is_interrupted_where_steps_are_missing():
    """Nothing is drawn between two parts of a signal that was not recorded in between."""
    steps = np.array([*range(40), *range(61, 101)])
    picture = pixels(draw("a gap", [PictureCurve(name="entropy/mean", steps=steps, values=np.ones(80))], at=0))
    assert len(blue_rows(picture, 78 + 628 * 20 // 100))
    assert not len(blue_rows(picture, 78 + 628 * 50 // 100))


@pytest.mark.parametrize("value", [0.0, -1e308, 5e-324])
def test_equal_values_are_drawn_in_the_middle(value):
    """A constant signal is a line at half of the height."""
    picture = pixels(draw("constant", [PictureCurve(name="x", steps=np.arange(9), values=np.full(9, value))], at=4))
    assert blue_rows(picture, 200).mean() == pytest.approx((TOP + 26 + TOP + PANEL - 8) / 2, abs=1.5)
