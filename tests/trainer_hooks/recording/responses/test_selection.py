"""The selection of a step's responses."""

import gc
import random
import weakref

import numpy as np

from tests.trainer_hooks.recording.two_groups import rollouts
from trainer_hooks import Rollouts
from trainer_hooks.recording.responses.selection import SamplingInterval, select_rows
from trainer_hooks.signals.action_tokens.tokens import ActionTokens

SEED = "1 0 0"


def chosen(given_, count=1):
    return select_rows(ActionTokens.of(given_), count, random.Random(SEED))  # noqa: S311 - no secret


def test_each_kind_selects_by_its_criterion():
    """A correct response that fell comes before an incorrect one that fell more; the other kinds have one candidate."""
    by_kind = {kind: row for row, kinds in chosen(rollouts()).items() for kind in kinds}
    assert by_kind["displaced"] == 0
    assert by_kind["resembling"] == 1
    assert by_kind["unlikely"] == 5
    assert by_kind["longest"] == 0  # five action tokens each but for row 3, and the first of equals
    assert by_kind["random"] in range(6)


def test_on_policy_no_response_is_displaced():
    """No response is displaced where old log-probabilities are missing or equal the new ones."""
    for old in (None, rollouts().logprobs):
        kinds = {kind for kinds in chosen(rollouts(old_logprobs=old)).values() for kind in kinds}
        assert kinds == {"unlikely", "longest", "random"}


def test_a_response_with_nan_is_the_least_likely():
    """A response with NaN is selected as unlikely, so that a person can read it."""
    logprobs = np.array(rollouts().logprobs)
    logprobs[4, 1] = np.nan
    broken = Rollouts(logprobs, rollouts().mask, rollouts().rewards)
    assert chosen(broken)[4][0] == "unlikely"


def test_the_arrays_of_a_step_are_freed_without_the_garbage_collector():
    """The arrays are freed with the step, because nothing that is cached refers back to them."""
    tokens = ActionTokens.of(rollouts())
    select_rows(tokens, 4, random.Random(SEED))  # noqa: S311 - no secret
    gone = weakref.ref(tokens)
    gc.disable()
    try:
        del tokens
        assert gone() is None
    finally:
        gc.enable()


def test_the_interval_starts_at_the_last_sample():
    """Every third step of 0.4 s is sampled, every step that is longer than the interval, and every step without one."""
    interval = SamplingInterval(1, 1.0)
    due = [interval.is_due(now) for now in (0.0, 0.4, 0.8, 1.2, 1.6, 5.0, 6.0)]
    assert due == [True, False, False, True, False, True, True]
    assert interval.is_due(3.0)  # the clock was set back
    interval = SamplingInterval(1, 0.0)
    assert [interval.is_due(0.0) for _ in range(3)] == [True] * 3
    assert not SamplingInterval(0, 0.0).is_due(0.0)
