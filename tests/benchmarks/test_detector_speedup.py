"""The comparison with another checkout: of this one with itself."""

from pathlib import Path

from benchmarks import detector_speedup


def test_a_checkout_is_about_as_fast_as_itself(capsys):
    """All three kinds of rows are measured, and the ratio is one of two numbers that were printed."""
    assert detector_speedup.main([str(Path.cwd()), "--rounds", "1", "--rows", "150", "--every", "60"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-3] for line in lines[1:]] == ["other", "here", "ratio"] * 3
    assert all(float(number) > 0.0 for line in lines[1:] for number in line.split()[-2:])
