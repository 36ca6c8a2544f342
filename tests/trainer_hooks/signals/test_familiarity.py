"""Tokens and pairs that the first steps did not have: another language and gibberish, by token ids alone."""

import numpy as np
import pytest
import torch

from trainer_hooks import Rollouts
from trainer_hooks.arrays.torch_backend import DeviceArrays
from trainer_hooks.signals import FamiliarTokens, reduce, summarise
from trainer_hooks.signals.families import familiarity

# Of the eight action tokens of a first step, half are a 5.
FIRST = [[5, 5, 5, 5], [6, 7, 8, 9]]


def step(token_ids, **changes):
    """Return the arguments of a step of two responses of four action tokens."""
    shape = np.shape(token_ids)
    given = {"logprobs": np.full(shape, -1.0), "mask": np.ones(shape, bool), "rewards": [1.0, 0.0]}
    return given | {"token_ids": np.array(token_ids)} | changes


def shares(arrays, familiar):
    """Return the three signals of a step, of those that it has."""
    found = summarise(Rollouts(**arrays), familiar=familiar)
    return {name: found[name].value() for name in familiarity.NAMES if name in found}


@pytest.fixture
def familiar():
    """A reference that has counted its first steps."""
    familiar = FamiliarTokens()
    for _ in range(familiarity.FIRST_STEPS):
        assert shares(step(FIRST), familiar) == {}
    return familiar


@pytest.mark.parametrize(
    ("token_ids", "unseen", "usual", "pairs"),
    [
        (FIRST, 0.0, 0.5, 0.0),
        ([[10, 11, 12, 13], [10, 11, 5, 6]], 6 / 8, 1 / 8, 1.0),  # mostly another language
        ([[5, 5, 5, 5], [5, 5, 5, 5]], 0.0, 1.0, 0.0),  # one token again and again
        ([[9, 9, 9, 9], [9, 9, 9, 9]], 0.0, 0.0, 1.0),
        ([[5, 9, 5, 8], [7, 6, 5, 5]], 0.0, 0.5, 5 / 6),  # its own words in no order
    ],
)
def test_each_kind_of_garble_has_shares_of_its_own(familiar, token_ids, unseen, usual, pairs):
    """Half of the first tokens were a 5, so that 5 alone is usual; 10 to 13 never occurred.

    Pairs that occurred are 5 5, 6 7, 7 8 and 8 9; 5 6, across two responses, is none.
    """
    found = shares(step(token_ids), familiar)
    assert found == {"text/unseen_frac": unseen, "text/usual_frac": usual, "text/unseen_pairs_frac": pairs}


def test_a_first_step_in_inference_mode_costs_no_later_one():
    """A tensor that torch makes in this mode cannot be changed outside it."""
    familiar, found = FamiliarTokens(), {}
    for number in range(familiarity.FIRST_STEPS + 1):
        with torch.inference_mode(number == 0):
            arrays = {name: torch.as_tensor(value) for name, value in step(FIRST).items()}
            rollouts = Rollouts(**arrays, library=DeviceArrays(torch.device("cpu")))
            found = reduce(rollouts, familiar=familiar).fetch().finish()
    assert found["text/unseen_pairs_frac"].value() == 0.0


def test_no_pair_spans_feedback(familiar):
    """The 9 and the 5 around a token of feedback are no pair, and a step of single tokens has none."""
    apart = step([[8, 9, 1, 5], [6, 7, 8, 9]], mask=[[1, 1, 0, 1], [1, 1, 1, 1]])
    assert shares(apart, familiar)["text/unseen_pairs_frac"] == 0.0
    alone = step([[8, 9, 1, 5], [6, 7, 8, 9]], mask=[[0, 1, 0, 1], [1, 0, 1, 0]])
    assert "text/unseen_pairs_frac" not in shares(alone, familiar)


def test_later_steps_do_not_become_familiar(familiar):
    """A collapse that lasts stays visible."""
    other = step([[10, 11, 12, 13], [10, 11, 12, 13]])
    assert [shares(other, familiar)["text/unseen_frac"] for _ in range(30)] == [1.0] * 30


def test_only_action_tokens_count(familiar):
    """Unseen tokens in feedback and padding, and ids below 0 there, change nothing."""
    masked = step([[5, 99, -100, 5], [6, 7, 8, 9]], mask=[[1, 0, 0, 1], [1, 1, 1, 1]])
    assert shares(masked, familiar)["text/unseen_frac"] == 0.0


def test_it_needs_token_ids_and_tokens(familiar):
    """Absent, never 0, where there are no ids, no action token, or no token to compare with."""
    without = step(FIRST)
    del without["token_ids"]
    assert shares(without, familiar) == {}
    nothing = step(FIRST, mask=np.zeros((2, 4), bool))
    assert shares(nothing, familiar) == {}
    empty = FamiliarTokens()
    for _ in range(familiarity.FIRST_STEPS):
        shares(nothing, empty)
    assert shares(step(FIRST), empty) == {}


def test_nan_log_probabilities_do_not_matter(familiar):
    """The ids of a dying policy still say which language it speaks."""
    assert shares(step(FIRST, logprobs=np.full((2, 4), np.nan)), familiar)["text/unseen_frac"] == 0.0


def test_a_state_goes_on_as_the_run_would(familiar):
    """In the middle of the first steps and after them, of plain numbers."""
    half = FamiliarTokens()
    for _ in range(familiarity.FIRST_STEPS // 2):
        shares(step(FIRST), half)
    for kept in (half, familiar, FamiliarTokens()):
        restored = FamiliarTokens()
        restored.load_state(kept.state())
        assert restored.state() == kept.state()
    assert shares(step([[10, 5, 5, 5], [6, 7, 8, 9]]), restored_from(familiar))["text/unseen_frac"] == 1 / 8


def test_a_state_without_pairs_begins_a_new_reference(familiar):
    """An earlier version kept no pairs, with which every pair would seem unseen."""
    state = familiar.state()
    del state["pairs"]
    restored = FamiliarTokens()
    restored.load_state(state)
    assert shares(step(FIRST), restored) == {}


def restored_from(familiar):
    """Return another reference in the same state."""
    restored = FamiliarTokens()
    restored.load_state(familiar.state())
    return restored


def test_a_device_computes_the_same_and_never_waits():
    """The results equal those of numpy; with tensors that have no values, code that needs a value would raise."""
    draw = np.random.default_rng(0)
    here, there, blind = FamiliarTokens(), FamiliarTokens(), FamiliarTokens()
    for number in range(familiarity.FIRST_STEPS + 2):
        arrays = step(draw.integers(0, 30 + number, (2, 4)), mask=draw.random((2, 4)) < 0.8)
        tensors = {name: torch.as_tensor(value) for name, value in arrays.items()}
        found = reduce(Rollouts(**tensors, library=DeviceArrays(torch.device("cpu"))), familiar=there).fetch().finish()
        expected = summarise(Rollouts(**arrays), familiar=here)
        for name in familiarity.NAMES:
            assert found.get(name) == expected.get(name)
        empty = {name: value.to("meta") for name, value in tensors.items()}
        parts = reduce(Rollouts(**empty), familiar=blind).parts
        assert {number.device.type for part in parts for number in part.numbers} == {"meta"}
