from contextlib import nullcontext

import pytest
import torch

from tests.live import PATIENCE_SECONDS
from trainer_hooks import RolloutsError
from trainer_hooks.arrays.torch_backend import DeviceArrays
from trainer_hooks.probes.paired import Paired
from trainer_hooks.probes.rescoring import PairedProbe
from trainer_hooks.signals import fetch, finish_summaries
from trainer_hooks.signals.families import paired

EVERYTHING = {"mask": torch.ones(1, 2), "correct": torch.ones(1)}


def signals(scores):
    """Return the signals as the collector would show them."""
    found = paired.compute(scores)
    here = fetch(scores.library, list(found.values()))
    return {name: summary.value() for name, summary in finish_summaries(zip(found, here, strict=True)).items()}


@pytest.mark.parametrize("library", [None, DeviceArrays(torch.device("cpu"))], ids=["host", "device"])
def test_fresh_and_trained_responses_have_different_signals(library):
    """A response is fresh or trained, feedback is left out, and means are over tokens of correct responses."""
    before = torch.tensor([[-1.0, -1.0], [-2.0, -2.0], [-3.0, -3.0]]), torch.tensor([[1.0, 1.0]] * 3)
    after = torch.tensor([[-1.5, -9.0], [-1.0, -2.0], [-3.0, -4.0]]), torch.tensor([[0.5, 9.0], [1.5, 1.5], [2.0, 2.0]])
    found = signals(
        Paired(
            before,
            after,
            mask=torch.tensor([[True, False], [True, True], [True, True]]),
            fresh=torch.tensor([True, False, True]),
            correct=torch.tensor([True, True, False]),
            library=library,
        )
    )
    # cross: −1.5 + 1; self: mean of +1 and 0; entropy of fresh tokens: −0.5, +1, +1.
    assert found == pytest.approx({"displacement/cross": -0.5, "displacement/self": 0.5, "entropy/paired_delta": 0.5})


def test_a_signal_without_observations_is_absent():
    """A signal is absent where there are no fresh responses, no entropies or no finite values."""
    scores = torch.zeros(1, 2), None
    assert signals(Paired(scores, scores, fresh=torch.zeros(1), **EVERYTHING)) == {"displacement/self": 0.0}
    broken = torch.full((1, 2), -torch.inf), None
    assert signals(Paired(broken, broken, **EVERYTHING)) == {}


def test_shapes_that_contradict_each_other_are_refused():
    """The error's message names the array and both shapes."""
    with pytest.raises(
        RolloutsError, match=r"logprobs after must have the shape of those before \(1, 2\), got \(1, 3\)"
    ):
        Paired((torch.zeros(1, 2), None), (torch.zeros(1, 3), None), **EVERYTHING)


def test_a_device_refuses_the_same_arrays_as_the_host_when_they_are_logged(collector, connect, swallowed):
    """A mask that contains 2s is refused with the same message; the scalars are sent, and the level is not L4.

    Nothing is said of rollouts, because scores are none.
    """
    scores, given = (torch.zeros(1, 2), None), EVERYTHING | {"mask": torch.full((1, 2), 2)}
    with pytest.raises(
        RolloutsError, match=r"mask of the paired scores must hold only 0 and 1, got 2 at \[0, 0\]"
    ) as here:
        Paired(scores, scores, **given)
    monitor = connect()
    device = DeviceArrays(torch.device("cpu"))
    monitor.log_step(1, {"loss/policy": 1.0}, paired=[Paired(scores, scores, library=device, **given)])
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.summaries["hooks/internal_errors"].value() == 1
    assert str(swallowed.pop()) == str(here.value)
    assert not {"hooks/rejected_rollouts", "hooks/lost_rollouts"} & record.summaries.keys()
    assert not [name for name in record.summaries if name.startswith("displacement/")]
    assert record.scalars == {"loss/policy": 1.0}
    assert collector.batches[-1].capability == "L1"


def test_ranks_merge_by_their_tokens(collector, connect, monkeypatch):
    """A rank with three fresh tokens counts three times as much as a rank with one, and the level is L4."""
    monkeypatch.setenv("RLVITALS_ATTEMPT", "1")
    for rank, (tokens, change) in enumerate([(3, 0.4), (1, 0.0)]):
        monitor = connect(rank=rank, world_size=2)
        before = torch.zeros(1, tokens)
        scores = Paired(
            (before, before),
            (before, before + change),
            mask=torch.ones(1, tokens),
            correct=torch.zeros(1),
        )
        monitor.log_step(1, paired=[scores])
        assert monitor.flush(PATIENCE_SECONDS)
    shares = [record.summaries["entropy/paired_delta"] for record in collector.records]
    assert shares[0].merge(shares[1]).value() == pytest.approx(0.3)
    assert collector.batches[-1].capability == "L4"


def test_several_pairs_of_a_step_are_one_mean(collector, connect):
    """The scores of a microbatch and of held-out responses are summed, and signals of the rollouts take precedence."""
    monitor = connect()
    pairs = [
        Paired((torch.zeros(1, n), None), (torch.full((1, n), d), None), mask=torch.ones(1, n), correct=torch.ones(1))
        for n, d in ((1, -4.0), (3, 0.0))
    ]
    monitor.log_step(1, paired=pairs)
    old = torch.full((1, 2), -2.0)
    free = {"logprobs": old + 1, "old_logprobs": old, "mask": old < 0, "rewards": [1.0], "trained": False}
    monitor.log_step(2, rollouts=free, paired=pairs)
    assert monitor.flush(PATIENCE_SECONDS)
    first, second = (record.summaries["displacement/cross"].value() for record in collector.records)
    assert first == pytest.approx(-1.0)
    assert second == pytest.approx(1.0)


def test_it_scores_before_and_after_and_draws_no_random_number():
    """Held-out responses are scored twice, those that the loss has scored once more, and then all are discarded."""
    weight, calls = torch.tensor(-1.0), []

    def score():
        calls.append(torch.rand(1))
        return weight.expand(1, 2), None

    probe = PairedProbe(3)
    assert [step for step in range(1, 10) if probe.is_due(step)] == [3, 6, 9]
    state = torch.get_rng_state()
    probe.note(score, **EVERYTHING)
    probe.note(score, before=(torch.full((1, 2), -3.0), None), **EVERYTHING)
    weight = torch.tensor(-2.0)
    first, second = probe.after_update()
    assert len(calls) == 3
    assert torch.equal(state, torch.get_rng_state())
    assert signals(first) == {"displacement/cross": -1.0}
    assert signals(second) == {"displacement/cross": 1.0}
    assert probe.after_update() == []


def test_an_interval_below_one_is_refused():
    """The error's message has both shapes."""
    with pytest.raises(ValueError, match="at least 1, got -1"):
        PairedProbe(-1)


@pytest.mark.parametrize("failing", [0, 1, 2], ids=["first pass", "second pass", "wrong shape"])
def test_a_rank_whose_scores_fail_makes_every_pass_all_the_same(failing):
    """The other ranks make a pass before and after the update for each call, and would wait for this rank."""
    probe, passes = PairedProbe(1), []

    def scorer(name, fails_at):
        def score():
            passes.append(name)
            if passes.count(name) == fails_at + 1:
                raise ValueError("a function of the user's")
            return torch.zeros(1, 3 if fails_at == passes.count(name) == 2 else 2), None

        return score

    with pytest.raises(ValueError, match="a function of the user's") if failing == 0 else nullcontext():
        probe.note(scorer("a", failing), **EVERYTHING)
    probe.note(scorer("b", -1), **EVERYTHING)
    with pytest.raises((ValueError, RolloutsError)) if failing else nullcontext():
        assert len(probe.after_update()) == 1
    assert sorted(passes) == ["a", "a", "b", "b"]
    assert probe.after_update() == []


def test_a_model_that_is_spread_over_devices_draws_no_random_number_on_any(monkeypatch):
    """The generators of two devices, of which the first is the current one, are as before the passes."""
    states = {0: torch.tensor(10), 1: torch.tensor(20)}

    def score():
        states.update({device: state + 1 for device, state in states.items()})
        return torch.full((1, 2), -1.0), None

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(states))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_rng_state", states.__getitem__)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: states.update({device: state}))
    probe = PairedProbe(1)
    probe.note(score, **EVERYTHING)
    probe.after_update()
    assert states == {0: 10, 1: 20}
