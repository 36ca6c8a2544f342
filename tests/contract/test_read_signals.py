"""The SDK keeps what detectors read where a step has too many names."""

from monitor_server.detection.registry import READ_SIGNALS
from trainer_hooks.recording import usable_fields

OF_THE_COLLECTOR = {"step/seen_frac"}


def test_the_sdk_knows_the_signals_that_detectors_read():
    """A name that is missing could be left out of a record of more than 10,000 names."""
    assert READ_SIGNALS - OF_THE_COLLECTOR <= usable_fields.READ_SIGNALS
