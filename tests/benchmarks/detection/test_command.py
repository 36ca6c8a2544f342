"""The command end to end, on as few runs as there are kinds."""

import json

import pytest

from benchmarks.detection import main
from benchmarks.detection.authored.suite import make_run
from benchmarks.detection.candidates.engine import ENGINE, ENGINE_STANDARD, engines, restart_mismatches, without_pairs


@pytest.mark.slow
def test_the_command_prints_numbers_and_writes_tables(capsys, tmp_path):
    """JSON holds every candidate at both levels; the page holds targets, tables and the command that made it."""
    page = tmp_path / "results.md"
    assert main(["--runs", "1", "--development", "--no-peers", "--json", "--write", str(page)]) == 0
    numbers = json.loads(capsys.readouterr().out)["a"]
    assert numbers["candidates"][ENGINE]["warn"]["benign_runs"] >= 15
    assert numbers["candidates"]["never"]["page"]["episodes"] == 0
    assert numbers["candidates"]["always"]["warn"]["benign_share"] == 1.0
    assert numbers["restart_mismatches"] == 0
    assert numbers["duplicate_mismatches"] == 0
    text = page.read_text()
    assert "--runs 1 --development --no-peers" in text
    assert "Targets, and what was reached" in text


def test_the_engine_without_pairs_never_sees_them():
    """Only the paired channel is removed."""
    run = make_run("benign/healthy", 0)
    stripped = without_pairs(run.observations)
    assert set(run.observations[0].signals) - set(stripped[0].signals) == {"entropy/paired_delta"}


def test_our_engine_warns_before_a_slow_death():
    """With the paired channel, a slow displacement run is warned of before it collapses."""
    run = make_run("displacement/slow", 0)
    candidates = {candidate.name: candidate for candidate in engines()}
    marks = candidates[ENGINE].replay(run.observations)
    steps = [row.step for row, mark in zip(run.observations, marks, strict=True) if mark.warn >= 1.0]
    assert steps
    assert min(steps) < run.truth.collapse
    assert len(candidates[ENGINE_STANDARD].replay(run.observations)) == len(run.observations)


def test_a_restarted_engine_says_the_same():
    """State through JSON every 17 rows changes nothing, across a resume and across gaps."""
    assert restart_mismatches([make_run("benign/resume", 0), make_run("benign/gaps", 0)]) == 0


def test_a_suite_written_later_leaves_the_others_as_they_stand(tmp_path):
    """Suite B goes before suite C and replaces itself; the words that people wrote above stay."""
    page, empty = tmp_path / "results.md", tmp_path / "none"
    empty.mkdir()
    page.write_text("# Results\nWords by hand.\n\n<!-- suite c -->\n\nkept\n\n<!-- end -->\n")
    for _ in range(2):
        assert main(["--suite", "b", "--recordings", str(empty), "--no-peers", "--write", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("# Results\nWords by hand.\n\n<!-- suite b -->")
    assert text.count("No recordings were found") == 1
    assert text.index("No recordings") < text.index("kept")
