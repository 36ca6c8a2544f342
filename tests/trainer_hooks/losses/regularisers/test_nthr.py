"""NTHR scales and GWHES against pairwise loops and against autograd."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_hooks.losses import group_advantages, gwhes, nthr_scales
from trainer_hooks.losses.regularisers import nthr
from trainer_hooks.losses.token_arrays import action_index


def group(seed, *, responses=5, length=7, width=4, vocabulary=6):
    """Return hidden states, an output layer, tokens, a mask with gaps and a mixed group."""
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.randn(responses, length, width, generator=draw, dtype=torch.float64)
    layer = torch.randn(vocabulary, width, generator=draw, dtype=torch.float64)
    tokens = torch.randint(0, vocabulary, (responses, length), generator=draw)
    mask = torch.rand(responses, length, generator=draw) < 0.7
    mask[:, 0] = True
    correct = torch.rand(responses, generator=draw) < 0.5
    correct[:2] = torch.tensor([True, False])
    return hidden, layer, tokens, mask, correct


def pairs(hidden, layer, tokens, mask):
    """Compute α ⟨h, h'⟩ of every two action tokens, with dictionaries and loops."""
    places = [(i, k) for i in range(len(mask)) for k in range(mask.shape[1]) if mask[i, k]]

    def error(place):
        probabilities = (layer @ hidden[place]).softmax(dim=0)
        return torch.nn.functional.one_hot(tokens[place], len(layer)).double() - probabilities

    errors = {place: error(place) for place in places}
    return {(a, b): float(errors[a] @ errors[b]) * float(hidden[a] @ hidden[b]) for a in places for b in places}, places


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_nthr_equals_the_definition_over_token_pairs(seed):
    """Tokens whose influence on correct responses exceeds the threshold get η, and no other token does."""
    hidden, layer, tokens, mask, correct = group(seed)
    act, places = pairs(hidden, layer, tokens, mask)
    influence = {b: sum(act[a, b] for a in places if correct[a[0]]) for b in places}
    means = [sum(influence[i, k] for k in range(7) if mask[i, k]) / int(mask[i].sum()) for i in range(5) if correct[i]]
    eta = 2 * abs(0.5 - float(correct.double().mean()))
    scales = nthr_scales(hidden, hidden @ layer.T, tokens, mask, correct)
    for i in range(5):
        for k in range(7):
            hurts = bool(mask[i, k]) and not correct[i] and influence[i, k] > min(means)
            assert scales[i, k].item() == pytest.approx(eta if hurts else 1.0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_gwhes_equals_the_definition_over_token_pairs(seed):
    """GWHES equals eq. 9 summed pair by pair, and is NaN where there is no correct action."""
    hidden, layer, tokens, mask, correct = group(seed)
    act, places = pairs(hidden, layer, tokens, mask)
    p = float(correct.double().mean())
    plus, minus = (1 - p) / math.sqrt(p * (1 - p)), p / math.sqrt(p * (1 - p))
    index = action_index(mask)
    found = gwhes(hidden, hidden @ layer.T, tokens, mask, correct)
    for i in range(5):
        for t in range(found.shape[1]):
            own = [a for a in places if a[0] == i and index[a] == t]
            if not correct[i] or not own:
                assert math.isnan(found[i, t])
                continue
            expected = sum((-plus if correct[b[0]] else minus) * act[a, b] for a in own for b in places)
            assert found[i, t].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_gwhes_is_the_change_of_likelihood_of_a_model_that_trains_its_output_layer_only():
    """A small step of gradient ascent on Σ A ln π changes ln π(action) by −rate · G, to first order."""
    hidden, layer, tokens, mask, correct = group(11)
    layer.requires_grad_()
    advantages = group_advantages(correct.double(), torch.zeros(5, dtype=torch.long))

    def logprobs(weight):
        return (hidden @ weight.T).log_softmax(dim=-1).gather(2, tokens[..., None])[..., 0] * mask

    (gradient,) = torch.autograd.grad((logprobs(layer) * advantages[:, None]).sum(), layer)
    rate = 1e-7
    with torch.no_grad():
        change = logprobs(layer + rate * gradient) - logprobs(layer)
    found = gwhes(hidden, (hidden @ layer.T).detach(), tokens, mask, correct)
    index = action_index(mask)
    for i, t in (~found.isnan()).nonzero().tolist():
        moved = change[i][index[i] == t].sum().item()
        assert moved == pytest.approx(-rate * found[i, t].item(), rel=1e-4, abs=1e-12)


@pytest.mark.parametrize("correct", [[True] * 5, [False] * 5])
def test_groups_of_one_kind_are_left_alone(correct):
    """Where all responses are correct, or all incorrect, the scales are 1 and GWHES is NaN."""
    hidden, layer, tokens, mask, _ = group(1)
    logits = hidden @ layer.T
    assert (nthr_scales(hidden, logits, tokens, mask, torch.tensor(correct)) == 1).all()
    assert gwhes(hidden, logits, tokens, mask, torch.tensor(correct)).isnan().all()


def test_half_correct_groups_silence_the_tokens_that_hurt():
    """At p = 1/2, η is 0, so the marked tokens get no negative gradient at all."""
    hidden, layer, tokens, mask, _ = group(3, responses=4)
    scales = nthr_scales(hidden, hidden @ layer.T, tokens, mask, torch.tensor([True, True, False, False]))
    assert set(scales.unique().tolist()) == {0.0, 1.0}


def test_chunks_of_one_token_give_what_one_chunk_gives(monkeypatch):
    """The size of a chunk changes the memory that is used, and not the result."""
    hidden, layer, tokens, mask, correct = group(5)
    arguments = (hidden, hidden @ layer.T, tokens, mask, correct)
    scales, weight = nthr_scales(*arguments), gwhes(*arguments)
    monkeypatch.setattr(nthr, "CHUNK_ELEMENTS", 1)
    assert torch.equal(nthr_scales(*arguments), scales)
    assert torch.allclose(gwhes(*arguments), weight, rtol=1e-12, equal_nan=True)


def test_bfloat16_is_lifted_token_by_token():
    """Half-precision states and logits give the float32 result of the same numbers."""
    hidden, layer, tokens, mask, correct = group(6)
    low = (hidden.bfloat16(), (hidden @ layer.T).bfloat16())
    high = tuple(tensor.float() for tensor in low)
    assert gwhes(*low, tokens, mask, correct).dtype == torch.float32
    assert torch.equal(nthr_scales(*low, tokens, mask, correct), nthr_scales(*high, tokens, mask, correct))
    weight = gwhes(*high, tokens, mask, correct)
    assert torch.allclose(gwhes(*low, tokens, mask, correct), weight, rtol=1e-6, equal_nan=True)


def test_inside_autocast_the_result_is_that_outside():
    """A loop may compute its loss inside autocast: the products of matrices stay in float32 there."""
    hidden, layer, tokens, mask, correct = group(8)
    arguments = (hidden.float(), (hidden @ layer.T).float(), tokens, mask, correct)
    outside = nthr_scales(*arguments), gwhes(*arguments)
    with torch.autocast("cpu", torch.bfloat16):
        inside = nthr_scales(*arguments), gwhes(*arguments)
    assert torch.equal(inside[0], outside[0])
    assert torch.equal(inside[1].nan_to_num(), outside[1].nan_to_num())


def test_padding_ids_and_numbers_outside_the_mask_never_matter():
    """Ids of −100 and NaN where the mask is False change nothing."""
    hidden, layer, tokens, mask, correct = group(7)
    expected = gwhes(hidden, hidden @ layer.T, tokens, mask, correct)
    logits = torch.where(mask[..., None], hidden @ layer.T, math.nan)
    spoiled = (torch.where(mask[..., None], hidden, math.nan), logits, torch.where(mask, tokens, -100))
    assert torch.equal(gwhes(*spoiled, mask, correct).nan_to_num(), expected.nan_to_num())
