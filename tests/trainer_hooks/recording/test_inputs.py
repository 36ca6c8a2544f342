"""Training may overwrite its arrays when `log_step` returns; errors in them are reported later."""

import re

import numpy as np
import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate

from tests.live import PATIENCE_SECONDS
from tests.trainer_hooks.large_steps import arguments
from trainer_hooks.delivery import DropCounter
from trainer_hooks.recording.inputs import InputReader
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.action_tokens.tokens import ActionTokens


@pytest.mark.parametrize("form", [dict, Rollouts])
def test_arrays_that_need_no_copy_are_read_in_place(collector, connect, monkeypatch, form):
    """With ``copy=False`` no array is copied, and the trainer's own arrays stay writeable."""
    read = []
    monkeypatch.setattr(ActionTokens, "of", lambda rollouts, of=ActionTokens.of: read.append(rollouts) or of(rollouts))
    given = arguments(entropies=torch.ones(64, 512), advantages=[1.0] * 64)
    monitor = connect()
    monitor.log_step(1, rollouts=form(**given, copy=False))
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[0].summaries["likelihood/correct"].value() == -1
    (rollouts,) = read
    assert np.shares_memory(rollouts.logprobs, given["logprobs"])
    assert np.shares_memory(rollouts.entropies, given["entropies"].numpy())
    given["logprobs"][0] = -2.0
    assert rollouts.logprobs[0, 0] == -2  # the trainer had promised not to write


def test_responses_are_sampled_after_the_interval_only(collector, connect, monkeypatch):
    """Faster steps have signals at every step, and responses only at the first."""
    monkeypatch.setenv("RLVITALS_RESPONSE_SECONDS", "3600")
    monitor = connect()
    for step in range(5):
        monitor.log_step(step, rollouts=arguments(2, 3))
    assert monitor.flush(PATIENCE_SECONDS)
    assert [bool(record.responses) for record in collector.records] == [True, False, False, False, False]
    assert all(record.summaries["likelihood/correct"].value() == -1 for record in collector.records)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entropies": -np.ones((64, 512))}, r"entropies must be at least 0 on action tokens, got -1.0 at \[0, 0\]"),
        ({"mask": np.ones((64, 511))}, r"mask must have the shape of logprobs \(64, 512\), got \(64, 511\)"),
        ({"rewards": ["good"] * 64}, "rewards must hold real numbers, got dtype <U4"),
        ({"rewards": np.array([None] * 64)}, "rewards must hold real numbers, got dtype object"),
        ({"mask": np.array([[None] * 512] * 64)}, "mask must hold booleans, got dtype object"),
        ({"rewards": np.ma.array(np.ones(64), mask=np.arange(64) == 3)}, "rewards must have no masked element"),
        ({"control_ids": [1, None]}, "control_ids must hold integers, got dtype object"),
        ({"control_ids": 7}, "control_ids must be one list of integers, got 7"),
        ({"texts": 3}, "texts must be a list of one text a response, got 3"),
        ({"control_ids": torch.ones(1, 2)}, "control_ids must hold integers"),
        ({"reward": np.ones(64)}, "unexpected keyword argument 'reward'"),
        ({"logprobs": None}, "logprobs must"),
        ({"advantages": [[1.0], [1.0, 2.0]]}, "advantages must be a rectangular array of numbers"),
        (
            {"entropies": torch.nested.nested_tensor([torch.ones(512)] * 64, layout=torch.jagged)},
            "entropies must be a rectangular array of numbers",
        ),
    ],
)
def test_an_error_in_the_arrays_is_located_and_counted_in_the_background(collector, connect, caplog, changes, message):
    """Training continues, the log names the array, the rule and the place, and the step's scalars are sent."""
    monitor = connect()
    monitor.log_step(1, {"x": 1.0}, rollouts=arguments(**changes))
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.scalars["x"] == 1.0
    assert record.summaries["hooks/rejected_rollouts"].value() == record.summaries["hooks/lost_rollouts"].value() == 1
    assert len(caplog.messages) == 1
    assert caplog.text.count("rollouts were left out") == 1
    assert re.search(message, caplog.text)


def test_a_masked_array_without_a_masked_element_is_an_array(collector, connect):
    """Only numbers below a mask would be mistaken for data."""
    monitor = connect()
    monitor.log_step(1, rollouts=arguments(rewards=np.ma.array(np.ones(64))))
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[0].summaries["reward/mean"].value() == 1


def test_an_error_on_a_device_costs_only_the_rollouts(swallowed):
    """Scalars are still read where the reduction fails on a device, as when its memory runs out."""
    tensors = {name: torch.as_tensor(value).to("meta") for name, value in arguments(2, 3).items()}
    numbers, tokens, _ = InputReader(DropCounter()).read(
        {"x": 1.0}, tensors, (), 0.0
    )  # meta tensors cannot be copied home
    assert numbers == {"x": 1.0}
    assert tokens is None
    assert isinstance(swallowed.pop(), NotImplementedError)


class Unreadable:
    """An object of a user that raises at any access."""

    def __repr__(self):
        raise RuntimeError("no text")

    __str__ = __repr__


class UnreadableError(Exception):
    """An error that raises at any access."""

    def __str__(self):
        raise RuntimeError("no text")


class NoNumber:
    """A value that is no number, and whose error cannot be read."""

    def __float__(self):
        raise UnreadableError


def test_values_and_names_that_cannot_be_read_cost_themselves_alone(caplog):
    """Their own code may raise, or return megabytes, wherever a message would quote them."""
    drops = DropCounter()
    given = {"a": NoNumber(), Unreadable(): "no number", "c": "x" * 10**6, "d": 1}
    assert InputReader(drops).read_numbers(given) == {"d": 1.0}
    assert (drops["scalars"], drops["internal_errors"]) == (3, 0)
    assert max(map(len, caplog.messages)) < 2_200


def test_an_array_of_one_element_is_a_number_as_a_tensor_is():
    """Old versions of numpy make it a float with a warning, and new ones refuse to."""
    drops = DropCounter()
    given = {"a": np.array([1.5]), "b": np.array([[2]]), "c": np.array(3.0), "d": torch.tensor([[4.0]])}
    assert InputReader(drops).read_numbers(given) == {"a": 1.5, "b": 2.0, "c": 3.0, "d": 4.0}
    assert InputReader(drops).read_numbers({"e": np.array([]), "f": np.ones(2)}) == {}
    assert drops["scalars"] == 2


@pytest.mark.filterwarnings("always")
def test_a_complex_number_is_no_number(recwarn):
    """Its real part, which numpy would give with a warning in the trainer's output, is another number."""
    drops = DropCounter()
    assert InputReader(drops).read_numbers({"a": np.complex64(1 + 2j), "b": 1j, "c": np.array([1j])}) == {}
    assert drops["scalars"] == 3
    assert not recwarn.list


@pytest.fixture
def alone():
    """Make a process group of this process alone, and return its mesh."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


def test_a_scalar_of_which_each_rank_holds_a_part_is_left_out(alone, caplog):
    """A sharded model has such gradient norms. A part is another number, and putting it together is a collective."""
    whole, part = (DTensor.from_local(torch.tensor(2.0), alone, [place]) for place in (Replicate(), Partial()))
    drops = DropCounter()
    assert InputReader(drops).read_numbers({"grad/norm": part, "loss": whole, "lr": 0.5}) == {"loss": 2.0, "lr": 0.5}
    assert drops["scalars"] == 1
    assert "log tensor.full_tensor()" in caplog.text


def test_a_million_characters_of_an_error_are_not_logged(caplog):
    """A number as text is quoted by the error of Python."""
    assert InputReader(DropCounter()).read_numbers({"a": "x" * 10**6}) == {}
    (line,) = caplog.messages
    assert len(line) < 2_200
