"""Feeds the decoder with inputs that atheris derives from the corpus by coverage: ``make fuzz-decoder``.

The arguments are those of libFuzzer: folders of inputs and options such as ``-max_total_time=600``. An
input on which the decoder fails is written as a file, which belongs into ``decoder_corpus`` once the cause is mended.
``-merge=1 tests/fuzz/decoder_corpus FOLDER`` adds those inputs of a folder that reach code which no other reaches.
"""

import logging
import sys

import atheris

with atheris.instrument_imports(
    include=["monitor_server.ingest", "monitor_server.step_processing.steps", "trainer_hooks"]
):
    from tests.fuzz.decoder import check_body
    from tests.fuzz.mutations import mutated


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Change a value of the message in three of four turns, and bytes at random in the others."""
    changed = mutated(data, seed) if seed % 4 else None
    return atheris.Mutate(data, max_size) if changed is None else changed[:max_size]


if __name__ == "__main__":
    logging.disable()
    atheris.Setup(sys.argv, check_body, custom_mutator=mutate)
    atheris.Fuzz()
