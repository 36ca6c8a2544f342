"""The sequence-level objective of GSPO."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_hooks.losses import gspo_loss, sequence_log_ratio


def test_the_ratio_is_the_geometric_mean_over_action_tokens():
    """The masked token does not count, and a response without action tokens has the ratio ln s = 0."""
    # ln s = (0.2 − 0.1) / 2 = 0.05
    new = torch.tensor([[0.2, math.nan, -0.1], [math.inf, 0.0, 0.0]])
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert torch.allclose(sequence_log_ratio(new, torch.zeros(2, 3), mask), torch.tensor([0.05, 0.0]))


def test_hand_worked_loss():
    """The ratio is clipped at A > 0 and kept at A < 0, and a response without action tokens is left out."""
    # s = e^0.05 for both: at A = 1 clipped to 1.01, at A = −1 kept: J = (1.01 − e^0.05) / 2
    new = torch.tensor([[0.2, -0.1], [0.05, 0.05], [9.0, 9.0]])
    mask = torch.tensor([[True, True], [True, True], [False, False]])
    advantages = torch.tensor([1.0, -1.0, math.nan])
    loss = gspo_loss(new, torch.zeros(3, 2), mask, advantages, clip_low=0.01, clip_high=0.01)
    assert loss.item() == pytest.approx((math.exp(0.05) - 1.01) / 2)
    # A ratio beyond the largest float32 is clipped like any other.
    beyond = torch.full((1, 1), 90.0, requires_grad=True)
    gspo_loss(beyond, torch.zeros(1, 1), mask[:1, :1], torch.ones(1)).backward()
    assert beyond.grad.item() == 0.0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_loss_equals_the_equation_written_as_loops(seed):
    """Vectorised and loop-by-loop objectives agree to float64 rounding."""
    draw = torch.Generator().manual_seed(seed)
    new, old = (torch.randn(4, 6, generator=draw, dtype=torch.float64) for _ in range(2))
    mask = torch.rand(4, 6, generator=draw) < 0.4
    advantages = torch.randn(4, generator=draw, dtype=torch.float64)
    terms = []
    for i in range(4):
        changes = [float(new[i, k] - old[i, k]) for k in range(6) if mask[i, k]]
        if changes:
            s, a = math.exp(sum(changes) / len(changes)), float(advantages[i])
            terms.append(min(s * a, min(max(s, 0.8), 1.3) * a))
    loss = gspo_loss(new, old, mask, advantages, clip_low=0.2, clip_high=0.3)
    assert loss.item() == pytest.approx(-sum(terms) / max(1, len(terms)), rel=1e-12, abs=1e-14)


def test_bfloat16_is_lifted_before_the_difference():
    """Half-precision log-probabilities give the float32 result of the same numbers."""
    draw = torch.Generator().manual_seed(3)
    new, old = (-torch.rand(4, 6, generator=draw).bfloat16() for _ in range(2))
    every, advantages = torch.ones(4, 6, dtype=torch.bool), torch.randn(4, generator=draw)
    low, high = gspo_loss(new, old, every, advantages), gspo_loss(new.float(), old.float(), every, advantages)
    assert low.dtype == torch.float32
    assert low.item() == high.item()


def test_gradients_match_finite_differences():
    """The gradient is that of the equation, away from the kinks."""
    draw = torch.Generator().manual_seed(1)
    new = torch.randn(3, 5, generator=draw, dtype=torch.float64, requires_grad=True)
    old = torch.randn(3, 5, generator=draw, dtype=torch.float64)
    mask = torch.rand(3, 5, generator=draw) < 0.7
    advantages = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: gspo_loss(x, old, mask, advantages, clip_low=0.2), (new,))
