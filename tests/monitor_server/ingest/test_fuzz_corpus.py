"""The inputs that `make fuzz-decoder` kept, in the ordinary tests and without atheris."""

from pathlib import Path

import pytest

from tests.fuzz.decoder import check_body
from tests.fuzz.mutations import mutated

CORPUS = Path(__file__).parents[2] / "fuzz" / "decoder_corpus"
MUTATIONS = 20  # of each input
LARGEST_CORPUS_BYTES = 200_000


def test_no_input_of_the_corpus_makes_the_decoder_fail(caplog):
    """Each is refused in words or stored so that it can be read again, and so are a few that differ in one value."""
    caplog.set_level("CRITICAL")
    inputs = [file.read_bytes() for file in sorted(CORPUS.iterdir())]
    assert sum(len(data) for data in inputs) < LARGEST_CORPUS_BYTES
    for data in inputs:
        for one in (data, *(mutated(data, seed) for seed in range(MUTATIONS))):
            if one is not None:
                check_body(one)


@pytest.mark.parametrize("choice", range(16))
def test_the_corpus_has_inputs_of_every_form(choice):
    """Both media types, each compression, and bodies that are compressed before and after they are changed."""
    if choice & 8 and choice >> 1 & 3 in (0, 3):
        return  # a form without compression has only one way to be sent
    assert any((file.read_bytes() or b"\0")[0] & 15 == choice for file in CORPUS.iterdir())
