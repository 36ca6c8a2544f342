"""The regularisers of eq. 4 to 6 against loops that follow the paper token by token."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_hooks.losses import LLDS_PRESETS, adaptive_answer_weight, lld_loss, llds_loss, llds_ma_loss
from trainer_hooks.losses.token_arrays import action_index


def arrays(seed, *, responses=5, tokens=13, scale=0.5):
    """Return log-probabilities, old log-probabilities, a mask with gaps, and advantages of all signs."""
    draw = torch.Generator().manual_seed(seed)
    old = -torch.rand(responses, tokens, generator=draw, dtype=torch.float64)
    new = old + scale * torch.randn(responses, tokens, generator=draw, dtype=torch.float64)
    mask = torch.rand(responses, tokens, generator=draw) < 0.7
    advantages = torch.randint(-1, 2, (responses,), generator=draw).double()
    answer = mask & (torch.rand(responses, tokens, generator=draw) < 0.3)
    return new, old, mask, advantages, answer


def by_loops(new, old, mask, advantages, *, gate, answer=None):
    """Compute eq. 4 to 6 with Python numbers alone."""
    total, count = 0.0, 0
    for row in range(len(new)):
        if advantages[row] < 0:
            continue
        actions, inside = [], False
        for k in range(len(new[row])):
            if mask[row][k]:
                if not inside:
                    actions.append([])
                actions[-1].append((float(old[row][k] - new[row][k]), bool(answer is not None and answer[row][k])))
            inside = bool(mask[row][k])
        count += sum(len(action) for action in actions)
        response_sum = sum(d for action in actions for d, _ in action)
        for action in actions:
            action_sum = sum(d for d, _ in action)
            is_open = {"response": response_sum > 0, "action": action_sum > 0, "none": True}[gate]
            total += sum(max(0.0, d) for d, is_answer in action if is_open and not is_answer)
    return total / count if count else 0.0


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), gate=st.sampled_from(["response", "action", "none"]), masked=st.booleans())
def test_llds_equals_the_equation_written_as_loops(seed, gate, masked):
    """Vectorised and loop-by-loop penalties agree to float64 rounding, for all gates, with and without answers."""
    new, old, mask, advantages, answer = arrays(seed)
    given_answer = answer if masked else None
    expected = by_loops(new, old, mask, advantages, gate=gate, answer=given_answer)
    assert llds_loss(new, old, mask, advantages, gate=gate, answer_mask=given_answer).item() == pytest.approx(
        expected, rel=1e-12, abs=1e-15
    )


def test_hand_worked_penalties():
    """Two actions of one response: the first gains 0.3 in sum, the second loses 0.1."""
    # d = old − new: action 0: (0.1, −0.4), action 1: (0.2, −0.1). N = 4.
    old = torch.tensor([[-1.0, -1.0, 0.0, -1.0, -1.0]])
    new = torch.tensor([[-1.1, -0.6, 0.0, -1.2, -0.9]])
    mask = torch.tensor([[True, True, False, True, True]])
    advantage = torch.tensor([0.0])
    # No gate: (0.1 + 0.2) / 4. Response: sum of d = −0.2, closed. Action: only the second is open, 0.2 / 4.
    assert lld_loss(new, old, mask, advantage).item() == pytest.approx(0.3 / 4)
    assert llds_loss(new, old, mask, advantage).item() == 0
    assert llds_loss(new, old, mask, advantage, gate="action").item() == pytest.approx(0.2 / 4)


def test_answer_tokens_count_for_the_gate_and_the_normaliser_and_not_for_the_penalty():
    """LLDS-MA takes the answer out of the penalty sum alone."""
    # d = (0.1, 0.3), the second token is the answer; the sum 0.4 opens the gate; 0.1 / 2 remains.
    old = torch.tensor([[-1.0, -1.0]])
    new = torch.tensor([[-1.1, -1.3]])
    every = torch.ones(1, 2, dtype=torch.bool)
    answer = torch.tensor([[False, True]])
    assert llds_ma_loss(new, old, every, torch.ones(1), answer).item() == pytest.approx(0.05)
    # A probability of the answer that rounds to 0 is left out like any other.
    never = torch.tensor([[-1.1, -math.inf]])
    assert llds_ma_loss(never, old, every, torch.ones(1), answer).item() == pytest.approx(0.05)


@pytest.mark.parametrize("gate", ["response", "action", "none"])
def test_gradients_match_finite_differences(gate):
    """The gradient is that of the equation, away from the kinks."""
    new, old, mask, advantages, answer = arrays(3)
    new.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: llds_loss(x, old, mask, advantages, gate=gate), (new,))
    assert torch.autograd.gradcheck(lambda x: llds_ma_loss(x, old, mask, advantages, answer, gate=gate), (new,))


def test_minibatches_of_a_shared_normaliser_add_up():
    """With one N for all, the penalties of the parts sum to the penalty of the whole."""
    new, old, mask, advantages, _ = arrays(9)
    count = (mask & (advantages >= 0)[:, None]).sum()
    parts = [
        llds_loss(new[rows], old[rows], mask[rows], advantages[rows], normaliser=count)
        for rows in (slice(0, 2), slice(2, 5))
    ]
    assert sum(parts).item() == pytest.approx(llds_loss(new, old, mask, advantages).item(), rel=1e-12)


@pytest.mark.parametrize("gate", ["response", "action", "none"])
def test_the_penalty_is_inert_at_the_old_policy(gate):
    """At θ = θ_old the loss and its gradient are exactly 0, so LLDS does nothing with one update per rollout batch."""
    _, old, mask, advantages, _ = arrays(4)
    new = old.clone().requires_grad_()
    loss = llds_loss(new, old, mask, advantages, gate=gate)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(new.grad, torch.zeros_like(new))


def test_wrong_responses_are_left_alone_and_zero_advantage_is_kept():
    """The preserving set is A ≥ 0: rows of zero advantage have a gradient, and rows of negative advantage have none."""
    old = torch.full((2, 3), -1.0)
    new = torch.full((2, 3), -2.0, requires_grad=True)
    every = torch.ones(2, 3, dtype=torch.bool)
    llds_loss(new, old, every, torch.tensor([-1.0, 0.0])).backward()
    # N = 3 tokens of the second row: each has slope −1/3.
    assert torch.allclose(new.grad, torch.tensor([[0.0] * 3, [-1 / 3] * 3]))


def test_an_empty_preserving_set_gives_zero_that_can_be_differentiated():
    """With wrong responses only, the term is 0, not 0/0."""
    new = torch.full((2, 3), -2.0, requires_grad=True)
    loss = llds_loss(new, torch.full((2, 3), -1.0), torch.ones(2, 3, dtype=torch.bool), -torch.ones(2))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(new.grad, torch.zeros(2, 3))


def test_numbers_outside_the_mask_never_matter():
    """NaN and Inf under the mask's False reach neither the loss nor the gradient."""
    new, old, mask, advantages, _ = arrays(5)
    spoiled = torch.where(mask, new, math.nan).requires_grad_()
    loss = llds_loss(spoiled, torch.where(mask, old, -math.inf), mask, advantages, gate="action")
    loss.backward()
    assert loss.item() == llds_loss(new, old, mask, advantages, gate="action").item()
    assert spoiled.grad.isfinite().all()


@pytest.mark.parametrize("gate", ["response", "action", "none"])
def test_nan_on_an_action_token_is_seen_in_the_penalty(gate):
    """The gate of a sum that is NaN is open, because a closed one would hide it."""
    new = torch.tensor([[-1.0, math.nan], [-1.2, -1.0]])
    every = torch.ones(2, 2, dtype=torch.bool)
    assert llds_loss(new, torch.full((2, 2), -1.0), every, torch.ones(2), gate=gate).isnan()


def test_bfloat16_is_lifted_before_the_difference():
    """Half-precision log-probabilities give the float32 result of the same numbers, and a gradient in bfloat16."""
    new, old, mask, advantages, _ = arrays(6)
    low_new, low_old = new.bfloat16().requires_grad_(), old.bfloat16()
    loss = llds_loss(low_new, low_old, mask, advantages)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == llds_loss(low_new.float(), low_old.float(), mask, advantages).item()
    assert low_new.grad.dtype == torch.bfloat16


def test_actions_are_the_runs_of_the_mask():
    """Every gap in the mask begins a new action."""
    mask = torch.tensor([[True, True, False, True, False, False, True]])
    assert action_index(mask).tolist() == [[0, 0, -1, 1, -1, -1, 2]]


def test_a_row_of_action_tokens_only_is_one_action():
    """The action gate equals the response gate where nothing interrupts."""
    new, old, _, advantages, _ = arrays(7)
    every = torch.ones(new.shape, dtype=torch.bool)
    assert llds_loss(new, old, every, advantages, gate="action") == llds_loss(new, old, every, advantages)


def test_arrays_that_do_not_belong_together_are_named():
    """The message names the wrong array and the needed shape or kind; the attention mask of a tokenizer is int64."""
    new, old, mask, advantages, _ = arrays(8)
    with pytest.raises(ValueError, match=r"old_logprobs must have the shape of logprobs \(5, 13\), got \(5, 12\)"):
        llds_loss(new, old[:, 1:], mask, advantages)
    with pytest.raises(ValueError, match=r"advantages must have shape \(5,\)"):
        llds_loss(new, old, mask, advantages[:, None])
    with pytest.raises(ValueError, match="logprobs must have shape"):
        llds_loss(new[0], old[0], mask[0], advantages)
    with pytest.raises(ValueError, match=r"mask must be boolean, got torch.int64; pass mask.bool\(\)"):
        llds_loss(new, old, mask.long(), advantages)
    with pytest.raises(ValueError, match="gate must be"):
        llds_loss(new, old, mask, advantages, gate="turn")


def test_the_two_normalisers_differ_by_the_share_of_preserved_tokens():
    """Eq. 5 divides by the tokens of the preserving set, the release by all action tokens."""
    new, old, mask, advantages, _ = arrays(5)
    share = mask[advantages >= 0].sum() / mask.sum()
    assert 0 < share < 1
    preserved, released = (
        llds_loss(new, old, mask, advantages, normaliser=normaliser) for normaliser in ("preserved", "all")
    )
    assert torch.equal(preserved, llds_loss(new, old, mask, advantages))
    assert released.item() == pytest.approx((preserved * share).item(), rel=1e-12)
    with pytest.raises(ValueError, match='must be "preserved", "all" or a number, got \'mean\''):
        llds_loss(new, old, mask, advantages, normaliser="mean")


def test_the_presets_are_those_of_the_paper_and_of_the_release():
    """The preset "paper" is eq. 5 with λ = 0.1; "release" has the action gate, all tokens and λ = 0.2."""
    paper, release = LLDS_PRESETS["paper"], LLDS_PRESETS["release"]
    assert (paper.coef, paper.gate, paper.normaliser) == (0.1, "response", "preserved")
    assert (release.coef, release.gate, release.normaliser) == (0.2, "action", "all")


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), weight=st.floats(0, 1))
def test_the_weight_of_the_answer_lies_between_llds_ma_and_llds(seed, weight):
    """The penalty is linear in the answer's weight: 0 is eq. 6, and 1 is eq. 5 without an answer mask."""
    new, old, mask, advantages, answer = arrays(seed)
    masked, whole = llds_ma_loss(new, old, mask, advantages, answer), llds_loss(new, old, mask, advantages)
    found = llds_loss(new, old, mask, advantages, answer_mask=answer, answer_weight=weight)
    assert found.item() == pytest.approx(((1 - weight) * masked + weight * whole).item(), rel=1e-9, abs=1e-15)


def test_the_adaptive_weight_follows_the_searches_and_ends_at_one():
    """Up to one search per response the answer is left out, at two it has its weight, and 1 is the maximum."""
    found = [adaptive_answer_weight(0.5, searches) for searches in (0.0, 1.0, 1.5, 2.0, 9.0)]
    assert found == [0.0, 0.0, 0.25, 0.5, 1.0]


@pytest.mark.parametrize("answer", [0.05, 0.2])
def test_the_adaptive_weight_is_that_of_the_release_over_lambda(answer):
    """The release penalises the answer with min(λ_a · max(n − 1, 0), λ), a λ of its own."""
    whole = 0.2
    for searches in (0.5, 1.0, 1.7, 3.0, 6.0):
        own = min(answer * max(searches - 1.0, 0.0), whole)
        assert whole * adaptive_answer_weight(answer / whole, searches) == pytest.approx(own)


@pytest.mark.parametrize("weight", [-0.1, 1.5, math.nan])
def test_a_weight_of_the_answer_outside_its_range_is_refused(weight):
    """The error's message states the range."""
    new, old, mask, advantages, answer = arrays(1)
    with pytest.raises(ValueError, match=r"answer_weight must be in \[0, 1\]"):
        llds_loss(new, old, mask, advantages, answer_mask=answer, answer_weight=weight)
