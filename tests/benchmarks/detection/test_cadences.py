"""Suite A at different cadences: which rows lose which signals, and the tables."""

import pytest

from benchmarks.detection import cadences
from benchmarks.detection.authored.suite import benign_kinds, displacement_kinds, failure_kinds, make_run
from benchmarks.detection.cadences import AS_AUTHORED, HALF, MIXED, main, thin


@pytest.mark.parametrize("kind", ["benign/resume", "displacement/late_onset", "benign/sparse_logging"])
def test_a_thinned_run_has_the_rows_and_the_truth_of_the_whole_one(kind):
    """Only signals are left out, and each by the step of its row."""
    run = make_run(kind, 3)
    thinned = thin(run, MIXED)
    assert (thinned.name, thinned.truth) == (run.name, run.truth)
    for row, whole in zip(thinned.observations, run.observations, strict=True):
        assert (row.step, row.attempt, row.time) == (whole.step, whole.attempt, whole.time)
        left_out = whole.signals.keys() - row.signals.keys()
        assert ("likelihood/correct" in left_out) == (row.step % 2 == 1 and "likelihood/correct" in whole.signals)
        assert ("entropy/paired_delta" in left_out) == (row.step % 10 > 0 and "entropy/paired_delta" in whole.signals)
        assert not left_out & {"reward/mean", "grad/norm", "length/mean"}
        assert all(whole.signals[name] is value for name, value in row.signals.items())


def test_the_first_cadence_leaves_nothing_out_and_the_second_one_treats_both_alike():
    """They are what the third one is compared with."""
    run = make_run("displacement/standard", 1)
    assert thin(run, AS_AUTHORED).observations == run.observations
    odd = [row for row in thin(run, HALF).observations if row.step % 2]
    assert not any({"entropy/mean", "entropy/paired_delta", "reward/correct_frac"} & row.signals.keys() for row in odd)


@pytest.mark.slow
def test_the_command_writes_its_block_and_keeps_the_others(capsys, tmp_path, monkeypatch):
    """The block stands between suite A and suite B; a few kinds are enough, because test_command.py runs each kind."""
    for kinds in (benign_kinds, displacement_kinds, failure_kinds):
        chosen = kinds()[::6]
        monkeypatch.setattr(cadences, kinds.__name__, lambda chosen=chosen: chosen)
    page = tmp_path / "results.md"
    page.write_text("# Results\n\n<!-- suite b -->\n\nkept\n\n<!-- end -->\n")
    assert main(["--runs", "1", "--development", "--write", str(page)]) == 0
    assert MIXED in capsys.readouterr().out
    text = page.read_text()
    assert text.index("signals at different cadences") < text.index("kept")
    assert "Printed by `python -m benchmarks.detection.cadences --runs 1 --development" in text
