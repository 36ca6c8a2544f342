"""Numbers that people wrote in a page are those of the tables that a benchmark printed."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def row(page, table, first):
    """Return a row of the table with this title by the words of its header."""
    _, found, rest = (DOCS / page).read_text().partition(f"**{table}**\n\n")
    assert found, table
    header, _, *lines = rest.partition("\n\n")[0].splitlines()
    (line,) = [line for line in lines if line.startswith(f"| {first} |")]
    return dict(zip(*(text.strip("| ").split(" | ") for text in (header, line)), strict=True))


@pytest.mark.parametrize(
    ("what", "table"),
    [
        ("[sudden failures in TRL](#failures-induced-in-trl), with the hooks", "Unseen seeds of the same causes"),
        ("the same, of causes for which no rule was made", "Causes that were added when the rules were fixed"),
        (
            "the same, of all causes with TRL's `RLOOTrainer`",
            "Another trainer: TRL's RLOOTrainer, of which no rule has seen a run",
        ),
    ],
)
def test_the_first_table_of_detection_has_the_results_of_suite_d(what, table):
    """Failures warned and paged within five rows, and healthy twins warned and paged."""
    found = row("detection-results.md", table, "hooks, paired channel")
    level = {name: text.partition(",")[0] for name, text in found.items()}
    warned, paged = (level[f"sudden: {word} within 5 rows"] for word in ("warned", "paged"))
    (line,) = [line for line in (DOCS / "detection.md").read_text().splitlines() if line.startswith(f"| {what} |")]
    assert f"| {warned} warned and {paged.partition(' ')[0]} paged within five rows |" in line
    twins_warned, twins = level["twins warned"].split(" of ")
    assert level["twins paged"] == f"0 of {twins}"
    healthy = (
        f"none of {twins} warned or paged" if twins_warned == "0" else f"{twins_warned} of {twins} warned, none paged"
    )
    assert line.endswith(f"| {healthy} |")


def test_the_introduction_of_the_warranty_has_the_numbers_of_suite_b():
    """The runs, their steps and their pages, and the failing runs that are still paged."""
    introduction, _, blocks = (DOCS / "warranty-results.md").read_text().partition("<!-- suite a -->")
    introduction = " ".join(introduction.split())
    suite = blocks.partition("<!-- suite b -->")[2].partition("<!-- end -->")[0]
    described = r"(\d+) healthy runs with ([\d,]+) recorded steps .*? (\d+) of .*? have a page, and (\d+) a page or"
    (_, steps, page, alarmed), (survivors, _, paged, warned) = re.findall(described, suite)
    assert f"{alarmed} instead of {page} of the healthy runs, and {warned} instead of {paged} of those" in introduction
    assert f"one page, a false one, in {steps} steps." in introduction
    assert f"{paged} of these {survivors} runs are paged" in introduction
    still, *_ = re.findall(r"\| 20,000 \| 1,000 of 1,000 \| (\d+) of \d+ \| \1\.00 \|", suite)
    assert f"each of the {still} that are paged without it is paged with it" in introduction


@pytest.mark.parametrize("experiment", ["runs-constant", "runs-long-thoughts", "runs-pretrained-short"])
def test_what_the_forecast_misses_has_the_numbers_of_its_experiment(experiment):
    """The mean forecast, and the share that collapsed."""
    text = (DOCS / "forecast-results.md").read_text()
    named = [name for name in re.findall(r"^\| ([\w/-]+) \|", text, re.MULTILINE) if name.endswith(experiment)]
    found = row("forecast-results.md", "Each experiment within 50 rows", named[0])
    (missed,) = [words for words in text.partition("<!--")[0].split("\n- ") if f"(`{experiment}`)" in words]
    assert found["mean forecast"] in missed
    collapsed = float(found["collapse rate"].removesuffix(" %"))
    assert f"{collapsed:g} %" in missed or f"{collapsed:.0f} %" in missed
