import pytest
import torch

from trainer_hooks import Rollouts, RolloutsError
from trainer_hooks.arrays.torch_backend import DeviceArrays
from trainer_hooks.callbacks.shared.microbatches import Microbatches
from trainer_hooks.signals import reduce, summarise


def microbatch(tokens, **others):
    """Return two responses of this many tokens."""
    logprobs = torch.full((2, tokens), -1.0 * tokens)
    return {"logprobs": logprobs, "mask": logprobs < 0, "rewards": torch.tensor([0.0, tokens])} | others


@pytest.fixture(params=["host", "device"])
def place(request):
    """Return arguments that put arrays on the host, or on an array type that the code treats as a device."""
    return {} if request.param == "host" else {"library": DeviceArrays(torch.device("cpu"))}


def test_joined_microbatches_say_what_they_say_together(place):
    """Joined microbatches of different lengths keep texts, settings, and advantages per response or per token."""
    whole = Microbatches()
    for tokens in (1, 3):
        advantages = torch.ones(2, tokens) if place else torch.ones(2)
        whole.add(microbatch(tokens, advantages=advantages, texts=["a", "b"], **place), is_last=tokens == 3)
    rollouts = whole.concatenate()
    assert isinstance(rollouts, Rollouts)
    assert rollouts.texts == ("a", "b", "a", "b")
    signals = {name: summary.value() for name, summary in summarise(rollouts).items()}
    assert (signals["length/mean"], signals["reward/mean"]) == (2, 1)
    assert whole.concatenate() is None


def test_a_response_without_a_reward_stays_neither_correct_nor_incorrect(place):
    """Joining keeps what was given: NaN, 1, and again NaN, 1 are two correct responses of two."""
    whole = Microbatches()
    for is_last in (False, True):
        whole.add(microbatch(1, rewards=torch.tensor([torch.nan, 1.0]), **place), is_last=is_last)
    assert summarise(whole.concatenate())["reward/correct_frac"].value() == 1


def test_a_step_of_one_microbatch_is_held_as_it_came():
    """The arrays of a single microbatch are not copied."""
    given, whole = microbatch(1), Microbatches()
    whole.add(given, is_last=True)
    assert whole.concatenate() is given


def test_microbatches_keep_no_graph_and_no_array_that_may_be_overwritten():
    """Tensors are detached and reusable arrays are copied, because the loop may overwrite them."""
    logprobs, whole = torch.full((2, 1), -1.0, requires_grad=True), Microbatches()
    rewards = torch.zeros(2)
    for is_last in (False, True):
        whole.add(microbatch(1, logprobs=logprobs * 1, rewards=rewards), is_last=is_last)
        rewards += 1
    assert whole.concatenate().rewards.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("place", ["device"], indirect=True)
def test_what_a_device_refuses_of_any_microbatch_is_refused(place):
    """A second microbatch whose mask contains 2s is refused."""
    whole = Microbatches()
    whole.add(microbatch(1, **place), is_last=False)
    whole.add(microbatch(1, mask=torch.full((2, 1), 2)), is_last=True)
    with pytest.raises(RolloutsError, match=r"mask must hold only 0 and 1, got 2 at \[0, 0\]"):
        reduce(whole.concatenate()).fetch().finish()


def test_arguments_that_there_are_not_are_refused():
    """Unknown arguments are refused with the same error as in log_step."""
    with pytest.raises(RolloutsError, match="reward"):
        Microbatches().add(microbatch(1, reward=1.0), is_last=False)
