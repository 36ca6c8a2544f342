"""Lead against false alarms over thresholds, and its picture."""

from xml.etree import ElementTree as ET

from benchmarks.detection.results_page.tables import Section, Table, as_markdown, as_text
from benchmarks.detection.runs import Group, Truth
from benchmarks.detection.scoring.curves import curve, picture
from benchmarks.detection.scoring.traces import Mark, Trace

BENIGN = Truth(group=Group.BENIGN, kind="none")
DYING = Truth(group=Group.DISPLACEMENT, kind="none", onset=10, acceleration=30, collapse=40)


def strengths(truth, by_step):
    """Return a trace of 50 rows with the given warn strengths."""
    return Trace.of("run", truth, range(50), [Mark(warn=by_step.get(step, 0.0)) for step in range(50)])


def test_a_stricter_threshold_gives_up_lead_for_quiet():
    """At 1: one false alarm in 50 rows (20 per 1,000), lead 25. At 3: none, lead 10. At 8: no lead."""
    points = curve([strengths(BENIGN, {5: 2.0}), strengths(DYING, {15: 2.0, 30: 4.0})], "warn")
    assert points == [(0.0, 10.0), (20.0, 25.0)]


def test_a_candidate_that_says_yes_or_no_has_one_point():
    """It has no threshold that could be varied, so its curve is one point."""
    assert curve([strengths(BENIGN, {5: 1.0}), strengths(DYING, {15: 1.0})], "warn") == [(20.0, 25.0)]


def test_the_picture_is_well_formed_and_names_every_candidate():
    """Names are escaped; every curve has its line, inside the frame."""
    text = picture("Lead & alarms", {"a < b": [(0.0, 10.0), (20.0, 25.0)], "dot": [(1.0, 5.0)]})
    root = ET.fromstring(text)  # noqa: S314 - our own picture
    words = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"a < b", "dot", "Lead & alarms"} <= set(words)
    assert sum(element.tag.endswith("polyline") for element in root.iter()) == 2


def test_no_two_candidates_of_the_report_share_a_colour():
    """Our two engines, the baselines and the three peers make thirteen curves, each in a different colour."""
    root = ET.fromstring(picture("", {f"candidate {n}": [(1.0, 5.0)] for n in range(13)}))  # noqa: S314 - our own
    lines = [element for element in root.iter() if element.tag.endswith("polyline")]
    assert len({line.get("stroke") for line in lines}) == 13


def test_tables_read_the_same_as_text_and_markdown():
    """Columns are aligned in the terminal; a bar in a cell is escaped in Markdown."""
    section = Section(title="S", notes=["n"], tables=[Table(title="T", header=("a", "bb"), rows=[["xx", "|"]])])
    assert as_text([section]) == "S\n=\n\nn\n\nT\na   bb\nxx  |\n"
    assert as_markdown([section]) == "## S\n\nn\n\n**T**\n\n| a | bb |\n| --- | --- |\n| xx | \\| |\n"
