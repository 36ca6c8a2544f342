"""Tensors on a device: the same signals as in numpy, one copy to the host, and no other operation that waits.

No accelerator is needed. Values are checked with tensors of the processor, which `DeviceArrays` treats as any device's.
Operations that wait are found with tensors on torch's meta device, which have no values: an operation that needs a
value raises there, and so does one whose shape depends on values.
"""

import gc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from tests.live import PATIENCE_SECONDS
from tests.trainer_hooks.signals.made_up import arrays, close
from trainer_hooks import Rollouts, RolloutsError
from trainer_hooks.arrays.torch_backend import DeviceArrays
from trainer_hooks.delivery import DropCounter
from trainer_hooks.recording.inputs import InputReader
from trainer_hooks.recording.responses.candidates import gather_candidates
from trainer_hooks.recording.responses.sampler import ResponseSampler
from trainer_hooks.recording.responses.selection import rank_rows
from trainer_hooks.signals import fetch, reduce, summarise
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.families.familiarity import FIRST_STEPS
from trainer_hooks.wire import Moments, Record, merge

PROCESSOR, META = torch.device("cpu"), torch.device("meta")
TOKEN_FLOATS = ("logprobs", "old_logprobs", "sampler_logprobs", "ref_logprobs", "entropies")
LOGPROBS = [[-1.0, -2.0, -3.0, 0.0], [-0.5, -0.5, 0.0, 0.0]]
MASK = [[1, 1, 1, 0], [1, 1, 0, 0]]


def tensors(a, dtype=torch.float64, device=PROCESSOR):
    """Return a step as a trainer with tensors has it: masks of integers, and rewards that are still on the host."""
    found = {name: torch.as_tensor(array) if isinstance(array, np.ndarray) else array for name, array in a.items()}
    found |= {name: found[name].to(device, dtype) for name in TOKEN_FLOATS}
    return found | {
        "mask": found["mask"].to(device, torch.int64),
        "token_ids": found["token_ids"].to(device),
        "rewards": a["rewards"].tolist(),
    }


def two_responses(**changes):
    """Return the arguments for two responses, with some changed."""
    return {"logprobs": torch.tensor(LOGPROBS), "mask": torch.tensor(MASK), "rewards": [1.0, 0.0]} | changes


@st.composite
def steps(draw):
    """Return a step in which some responses, perhaps all, have no action token, and some advantages are per token."""
    a = draw(st.builds(arrays, st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 24), bad=st.booleans()))
    a["mask"][draw(st.lists(st.integers(0, len(a["mask"]) - 1)))] = False
    a["answer_mask"] &= a["mask"]
    if draw(st.booleans()):
        a["advantages"] = np.random.default_rng(len(a["mask"])).normal(size=a["mask"].shape)
    if draw(st.booleans()):
        a["old_logprobs"] = a["logprobs"]
    return a


@settings(max_examples=150, deadline=None)
@given(steps(), st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]))
def test_signals_are_those_of_numpy(a, dtype):
    """The same summaries are present, with equal counts and sums equal to rounding, in every precision."""
    given = tensors(a, dtype)
    here = summarise(Rollouts(**given))
    there = summarise(Rollouts(**given, library=DeviceArrays(PROCESSOR)))
    assert list(there) == list(here)
    for name, summary in here.items():
        assert type(there[name]) is type(summary)
        if isinstance(summary, Moments):
            found = [there[name].count, there[name].sum, there[name].sum_squares]
            assert found == pytest.approx([summary.count, summary.sum, summary.sum_squares], rel=1e-9, abs=1e-9)
    found, expected = merge([Record(step=1, summaries=there)]), merge([Record(step=1, summaries=here)])
    wrong = {name: (found[name], expected[name]) for name in found if not close(name, found[name], expected[name])}
    assert not wrong


@settings(max_examples=25, deadline=None)
@given(steps())
def test_the_reduction_does_not_read_values(a):
    """Tensors without values are reduced completely, and all results stay on their device."""
    rollouts = Rollouts(**tensors(a, torch.bfloat16, META))
    numbers = [number for part in reduce(rollouts).parts for number in part.numbers]
    assert {number.device for number in numbers} == {META}
    with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
        float(numbers[0])


def test_no_tensor_is_kept_after_the_fetch():
    """The trainer's memory is free when `log_step` returns, before anything is encoded."""
    step = tensors(arrays(1, 8, 24, bad=True), torch.float32) | {"library": DeviceArrays(PROCESSOR)}
    places = {value.data_ptr() for value in step.values() if isinstance(value, torch.Tensor)}
    _, tokens, _ = InputReader(DropCounter(), responses=2).read({}, step, (), 0.0)
    del step
    gc.collect()
    tensors_left = [item for item in gc.get_objects() if type(item) is torch.Tensor]
    assert [tensor.shape for tensor in tensors_left if tensor.data_ptr() in places] == []
    assert tokens.finish()


class OneWayHome(TorchDispatchMode):
    """Lets tensors without values be copied to the host, as zeros, and records the calls."""

    def __init__(self):
        super().__init__()
        self.copies = 0
        self.random = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in function.tags:
            self.random.append(function)
        copy = torch.ops.aten._to_copy.default  # noqa: SLF001 - torch's own name
        is_copy = function is copy and args[0].device == META
        if is_copy and torch.device(kwargs.get("device", META)) == PROCESSOR:
            self.copies += 1
            return torch.zeros(args[0].shape, dtype=kwargs.get("dtype", args[0].dtype))
        return function(*args, **kwargs)


def test_a_step_is_fetched_with_one_copy(collector, connect):
    """Rollouts, loss and gradient norm on the device need one copy, no other wait and no random number."""
    monitor = connect()
    step = tensors(arrays(1, 8, 24, bad=True), torch.bfloat16, META)
    loss = torch.zeros((), device=META, requires_grad=True)
    with OneWayHome() as watch:
        monitor.log_step(1, {"loss/policy": loss, "lr": 1e-6}, rollouts=step, grad_norm=torch.ones(1, device=META))
    assert watch.copies == 1
    assert watch.random == []
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.scalars == {"loss/policy": 0.0, "grad/norm": 0.0, "lr": 1e-6}
    assert record.summaries["finite/bad_values"].value() == 0


# What torch.use_deterministic_algorithms names, of what is called outside of models: these raise on CUDA.
REFUSED = {f"aten.{name}" for name in ("put", "put_", "histc", "nll_loss_forward", "kthvalue", "median", "nanmedian")}
REFUSED_FOR_FLOATS = {"aten.cumsum", "aten.cumsum_", "aten.logcumsumexp"}


class DeterministicCuda(TorchDispatchMode):
    """Refuses what torch refuses on CUDA in deterministic mode."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function.overloadpacket)
        is_refused = name in REFUSED or (name in REFUSED_FOR_FLOATS and args[0].is_floating_point())
        if is_refused or (name == "aten.bincount" and len(args) > 1):
            raise RuntimeError(f"{name} does not have a deterministic implementation")
        return function(*args, **(kwargs or {}))


def test_every_operation_is_allowed_in_deterministic_mode():
    """Whole trainings set this mode, and a refused operation would cost all token signals of a step."""
    drops = DropCounter()
    reader = InputReader(drops, responses=2)
    for _ in range(FIRST_STEPS + 1):
        step = tensors(arrays(1, 8, 24, bad=True), torch.float32) | {"library": DeviceArrays(PROCESSOR)}
        with DeterministicCuda():
            _, reduced, _ = reader.read({}, step, (), 0.0)
        assert reduced is not None
    assert reduced.finish()["text/usual_frac"].count > 0


def test_a_step_logged_from_a_device_equals_the_one_logged_from_the_host(collector, connect, monkeypatch):
    """Through `log_step` and the wire, with the same capability level."""
    monkeypatch.setenv("RLVITALS_RESPONSE_SECONDS", "0")
    step = tensors(arrays(5, 8, 24, bad=True))
    monitor = connect()
    monitor.log_step(1, rollouts=step)
    monitor.log_step(2, rollouts=step | {"library": DeviceArrays(PROCESSOR)})
    assert monitor.flush(PATIENCE_SECONDS)
    here, there = (merge([record]) for record in collector.records)
    hooks = ("hooks/blocking_seconds", "hooks/spool_bytes")
    assert {name: there[name] for name in here if name not in hooks} == {
        name: pytest.approx(value, rel=1e-9, abs=1e-9) for name, value in here.items() if name not in hooks
    }
    assert collector.batches[-1].capability == "L3"
    assert all(record.responses for record in collector.records)


@pytest.mark.parametrize(
    "changes",
    [
        {"mask": torch.tensor(MASK) * 2},
        {"logprobs": -torch.tensor(LOGPROBS)},
        {"old_logprobs": torch.zeros(2, 4)},
        {"entropies": torch.tensor(LOGPROBS)},
        {"answer_mask": torch.ones(2, 4)},
        {"tool_calls": [0, -1]},
        {"tool_calls": [1, 1], "tool_calls_valid": [1, 2]},
        {"tool_calls": [1, 1], "tool_calls_valid": [1, 1], "tool_calls_empty": [2, 1]},
        {"correct": [0.0, 0.5]},
    ],
)
def test_a_contradiction_is_located_as_on_the_host(changes):
    """The message is the same, although the values are on the device."""
    with pytest.raises(RolloutsError) as here:
        Rollouts(**two_responses(**changes))
    there = Rollouts(**two_responses(**changes), library=DeviceArrays(PROCESSOR))
    with pytest.raises(RolloutsError) as refused:
        summarise(there)
    assert str(refused.value) == str(here.value)


def test_a_contradiction_costs_only_the_rollouts(collector, connect):
    """Scalars that were fetched with refused arrays are still sent."""
    monitor = connect()
    refused = two_responses(old_logprobs=torch.zeros(2, 4), library=DeviceArrays(PROCESSOR))
    monitor.log_step(1, {"x": torch.tensor(2.0)}, rollouts=refused)
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.scalars["x"] == 2.0
    assert record.summaries["hooks/rejected_rollouts"].value() == 1


def test_a_shape_is_refused_at_once():
    """A check that needs no value is made when the rollouts are made."""
    with pytest.raises(RolloutsError, match=r"mask must have the shape of logprobs \(2, 4\), got \(2, 3\)"):
        Rollouts(torch.zeros(2, 4, device=META), torch.ones(2, 3, device=META), [1.0, 0.0])


def test_values_that_are_no_scalars_are_counted(collector, connect):
    """A tensor of several elements on a device is not a number, and costs only itself."""
    monitor = connect()
    monitor.log_step(1, {"x": torch.zeros(2, device=META), "y": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.scalars == {"y": 1.0}
    assert record.summaries["hooks/rejected_scalars"].value() == 1


@settings(max_examples=100, deadline=None)
@given(steps(), st.integers(1, 3), st.data())
def test_responses_sampled_from_candidates_equal_those_sampled_from_all(a, count, data):
    """The rows fetched from a device contain every response that would have been sampled, to the byte."""
    given = tensors(a, torch.float32) | {"texts": [f"text {row}" for row in range(len(a["mask"]))]}
    if "group_ids" in given:
        given["group_ids"] = given["group_ids"] + 2**60  # such as times in ns, which no float64 tells apart
    drawn = data.draw(st.lists(st.integers(0, len(a["mask"]) - 1), min_size=1, max_size=count, unique=True))
    sampler = ResponseSampler(count=count, max_bytes=1 << 20, texts=True)
    here = sampler.sample(ActionTokens.of(Rollouts(**given)), seed="1", drawable=drawn)
    there = Rollouts(**given, library=DeviceArrays(PROCESSOR))
    (asked,) = fetch(there.library, reduce(there, lambda tokens: gather_candidates(tokens, count, drawn)).extra)
    found = asked.finish(*asked.numbers)
    assert len(found.tokens.rollouts.rewards) <= 5 * count
    assert sampler.sample(found.tokens, seed="1", drawable=found.drawable) == here


def test_a_response_with_nan_does_not_hide_one_without_probability():
    """Both come first among the unlikely ones, in the order of the step, on the host and on a device."""
    logprobs = torch.tensor([[-1.0, -1.0], [-1.0, -torch.inf], [torch.nan, -1.0]])
    given = {"logprobs": logprobs, "mask": torch.ones(3, 2), "rewards": [1.0, 0.0, 0.0]}
    here = rank_rows(ActionTokens.of(Rollouts(**given)), 1)["unlikely"].rows
    there = rank_rows(ActionTokens.of(Rollouts(**given, library=DeviceArrays(PROCESSOR))), 1)["unlikely"].rows
    assert here.tolist() == there.tolist() == [1]
