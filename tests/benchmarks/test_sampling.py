"""`python -m benchmarks.sampling`, at a size that takes a second."""

from benchmarks.sampling import main, samplers


def test_both_samplers_sample_and_the_ratio_is_printed(capsys):
    """A row for each of the two, with responses of one length and with such as end at random."""
    assert main(["--groups", "1", "--new-tokens", "3", "--repeats", "1"]) == 0
    printed = capsys.readouterr().out
    for ends in ("of one length", "that end at random"):
        rows = printed.split(ends)[1].splitlines()[1:3]
        assert [row.split(",")[0] for row in rows] == ["transformers.generate", "our sampler"]


def test_tokens_after_an_end_are_not_counted():
    """A response is 1 token where every token ends it, and all of them where none does, for both samplers."""
    for ending, counted in ((range(512), 8), (range(0), 24)):
        found = samplers(16, 1, rows=8, prompt=4, new_tokens=3, ending=ending)
        assert [sample() for sample in found.values()] == [counted, counted]
