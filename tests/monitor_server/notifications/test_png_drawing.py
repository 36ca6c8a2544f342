"""The picture of a message: any numbers can be drawn, and each element is at its place."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from monitor_server.notifications.messages.chart import draw_picture
from monitor_server.notifications.messages.png_drawing import ALERT, LINE, PANEL, TOP, WIDTH, PictureCurve, draw
from monitor_server.settings import Settings
from monitor_server.store.repositories.alerts import Alert
from tests.databases import sqlite_only
from tests.monitor_server.simulated_collectors import SimulatedCollector, project_to_end

BLUE = tuple(int(LINE[place : place + 2], 16) for place in (1, 3, 5))


def pixels(png):
    """Return the picture as numbers, shape [rows, columns, 3]."""
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))


def blue_rows(picture, column):
    """Return the rows in which a column is drawn in the colour of the curve."""
    return np.flatnonzero((picture[:, column] == BLUE).all(axis=1))


@settings(max_examples=12)
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


@sqlite_only
def test_the_picture_shows_the_signal_of_the_alert_first(store, append, scripted, clock):
    """A signal that is no vital sign falls in the panel above the vital sign, which is constant."""
    records = [{"step": step, "scalars": {"reward/mean": 0.5, "eval/accuracy": 0.9 - 0.2 * step}} for step in range(4)]
    run_id = append(records=records)
    project_to_end([SimulatedCollector(store, scripted, clock, Settings())], run_id, clock)
    found = Alert(
        id="a", run_id=run_id, kind="rule:low", severity="critical", phase="healthy", opened_step=3, severity_step=3,
        last_step=3, opened_at=0.0, summary="", evidence={"signal": "eval/accuracy"}, state="firing",
    )  # fmt: skip
    with store.write() as repositories:
        repositories.alerts.add(found)
    named = {"id": "a", "run_id": run_id, "kind": found.kind, "opened_step": 3, "last_step": 3}
    picture = pixels(draw_picture(store, {"alerts": [named]}))
    assert picture.shape == (TOP + 2 * PANEL + 30, WIDTH, 3)
    above, below = picture[TOP : TOP + PANEL], picture[TOP + PANEL : TOP + 2 * PANEL]
    assert blue_rows(above, 100).mean() + 10 < blue_rows(above, WIDTH - 50).mean()
    assert blue_rows(below, 100).mean() == blue_rows(below, WIDTH - 50).mean()
