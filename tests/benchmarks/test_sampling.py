"""`python -m benchmarks.sampling`, at a size that takes a second."""

from benchmarks.sampling import main


def test_both_samplers_sample_and_the_ratio_is_printed(capsys):
    """A row of the table for each of the two."""
    assert main(["--groups", "1", "--new-tokens", "3", "--repeats", "1"]) == 0
    said = capsys.readouterr().out
    assert "transformers.generate, 8 rows" in said
    assert "our sampler, 8 rows" in said
