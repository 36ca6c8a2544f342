import pytest
import torch

from trainer_hooks.probe import PairedProbe, paired_signals


def test_fresh_and_trained_responses_are_told_apart():
    """Each response is one or the other; feedback counts nowhere; means are over tokens of correct responses."""
    before = torch.tensor([[-1.0, -1.0], [-2.0, -2.0], [-3.0, -3.0]]), torch.tensor([[1.0, 1.0]] * 3)
    after = torch.tensor([[-1.5, -9.0], [-1.0, -2.0], [-3.0, -4.0]]), torch.tensor([[0.5, 9.0], [1.5, 1.5], [2.0, 2.0]])
    found = paired_signals(
        before,
        after,
        mask=torch.tensor([[True, False], [True, True], [True, True]]),
        fresh=torch.tensor([True, False, True]),
        correct=torch.tensor([True, True, False]),
    )
    # cross: −1.5 + 1; self: mean of +1 and 0; entropy of fresh tokens: −0.5, +1, +1.
    assert found == pytest.approx({"displacement/cross": -0.5, "displacement/self": 0.5, "entropy/paired_delta": 0.5})


def test_what_is_not_there_is_absent():
    """No fresh response, no entropy: neither signal."""
    scores = torch.zeros(1, 2), None
    everything = torch.ones(1, 2, dtype=torch.bool)
    found = paired_signals(
        scores, scores, mask=everything, fresh=torch.zeros(1, dtype=torch.bool), correct=everything[:, 0]
    )
    assert found == {"displacement/self": 0.0}


def test_it_repeats_at_every_nth_step_and_draws_no_random_number():
    """One call a step is remembered, made again once, and the generator is where it was."""
    probe = PairedProbe(3)
    assert [step for step in range(1, 10) if probe.wants(step)] == [3, 6, 9]
    probe.remember(lambda size: (torch.rand(size), None), (2,), {})
    assert not probe.wants(3)
    state = torch.get_rng_state()
    assert probe.repeat() is not None
    assert torch.equal(state, torch.get_rng_state())
    assert probe.repeat() is None


def test_an_interval_below_one_is_refused():
    """The message says what was given."""
    with pytest.raises(ValueError, match="at least 1, got -1"):
        PairedProbe(-1)
