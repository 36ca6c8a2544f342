"""Random batches that two collectors receive again and again, with crashes, are as those of one that is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.monitor_server.simulated_collectors import (
    random_examples,
)
from tests.monitor_server.step_processing.compared_runs import Comparison


@random_examples(2)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.usefixtures("small_parts")
def test_two_collectors_give_the_same_as_one_that_is_left_alone(two_stores, scripted, clock, seed):
    """Every record is stored once, and the log, steps, alerts, phases and the order of detection are equal."""
    compared = Comparison(seed, two_stores, scripted, clock)
    compared.run(40)
    cut, whole = compared.outcome(compared.cut_id), compared.outcome(compared.whole_id)
    assert cut == whole
    assert len({(each.attempt, each.rank, each.seq) for each in cut["records"]}) == len(cut["records"])
    assert (cut["waiting"], cut["is_projected"]) == ([], True)
