"""The resemblance of two responses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.attribution.resemblance import closest, resembling
from monitor_server.attribution.sampled_responses import Sampled

# Few tokens, so that much is equal, among them those that a hash could confuse: 0, and the largest that are sent.
TOKENS = st.sampled_from([0, 1, 2, 50_000, 2**31 - 1, -1])


@st.composite
def sampled(draw, name, *, correct):
    """A response of up to 30 tokens whose actions leave some of them out."""
    ids = draw(st.lists(TOKENS, max_size=30))
    bounds = sorted(draw(st.lists(st.integers(0, len(ids)), max_size=6)))
    actions = np.array(bounds[: len(bounds) // 2 * 2], np.int32).reshape(-1, 2)
    spoken = int((actions[:, 1] - actions[:, 0]).sum())
    return Sampled(
        id=name,
        step=1,
        group=(1, 0),
        correct=correct,
        length=spoken,
        logprob=-1.0,
        displacement=None,
        actions=actions,
        logprobs=np.zeros(spoken),
        displacements=None,
        token_ids=np.array(ids, np.int32),
    )


def four_grams(response):
    """Return the runs of four tokens within an action, which define the measure."""
    ids = response.token_ids.tolist()
    return {tuple(ids[at : at + 4]) for first, after in response.actions.tolist() for at in range(first, after - 3)}


@given(wrong=sampled("wrong", correct=False), right=sampled("right", correct=True))
def test_overlap_is_the_share_of_four_grams_that_both_have(wrong, right):
    """Exactly, for each pair; 0 where the incorrect one has none."""
    (pair,) = resembling([right], [wrong], most=1)
    own = four_grams(wrong)
    assert pair.overlap == pytest.approx(len(own & four_grams(right)) / len(own) if own else 0.0)
    assert closest([right], [wrong]) == [pair]
