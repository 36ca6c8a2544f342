import numpy as np
import pytest
import torch

from trainer_hooks import Rollouts, RolloutsError
from trainer_hooks.signals import summarise

LOGPROBS = np.array([[-1.0, -2.0, -3.0, 0.0], [-0.5, -0.5, 0.0, 0.0]], dtype=np.float32)
MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], dtype=bool)
REWARDS = np.array([1.0, 0.0])


def rollouts(**changes):
    """Return two responses with the given arguments changed."""
    return Rollouts(**({"logprobs": LOGPROBS, "mask": MASK, "rewards": REWARDS} | changes))


@pytest.mark.parametrize("kind", [tuple, set, np.array, torch.tensor])
def test_control_ids_are_integers_whatever_holds_them(kind):
    """A tensor would be compared with arrays of numpy, which fails."""
    ids = np.array([[1, 2, 3, 9], [3, 5, 9, 9]])
    assert summarise(rollouts(token_ids=ids, control_ids=kind([3, 5])))["control/share"].value() == 3 / 5
    assert summarise(rollouts(token_ids=ids, control_ids=kind([])))["control/share"].value() == 0


@pytest.mark.parametrize("kind", [tuple, list, np.array, torch.tensor])
def test_the_two_bounds_of_a_clip_range_may_be_in_any_sequence(kind):
    """A configuration file gives a list of them."""
    assert rollouts(clip_range=kind([0.25, 0.5])).clip_range == (0.25, 0.5)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_the_rewards_of_a_verifier_may_be_booleans(kind):
    """True and False count as 1 and 0; log-probabilities that are booleans are a mask that was mistaken for them."""
    assert summarise(rollouts(rewards=kind([True, False])))["reward/mean"].value() == 0.5
    with pytest.raises(RolloutsError, match="logprobs must hold real numbers, got dtype bool"):
        rollouts(logprobs=MASK)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logprobs": LOGPROBS[0]}, r"logprobs must have a shape \(B, T\) with B, T >= 1, got \(4,\)"),
        ({"logprobs": [[-1.0], [-1.0, -2.0]]}, "logprobs must be a rectangular array of numbers"),
        ({"logprobs": [["a", "b"]]}, "logprobs must hold real numbers, got dtype <U1"),
        ({"mask": MASK[:, :3]}, r"mask must have the shape of logprobs \(2, 4\), got \(2, 3\)"),
        ({"mask": MASK * 2}, r"mask must hold only 0 and 1, got 2 at \[0, 0\]"),
        ({"rewards": [1.0]}, r"rewards must have the shape of one response \(2,\), got \(1,\)"),
        ({"old_logprobs": LOGPROBS[:, :3]}, r"old_logprobs must have the shape of logprobs \(2, 4\), got \(2, 3\)"),
        (
            {"logprobs": -LOGPROBS},
            r"logprobs must be log-probabilities, at most 0 on action tokens, got 1.0 at \[0, 0\]",
        ),
        ({"old_logprobs": np.zeros((2, 4))}, r"old_logprobs must be .*, got 0 \(certainty\) on every action token"),
        ({"entropies": LOGPROBS}, r"entropies must be at least 0 on action tokens, got -1.0 at \[0, 0\]"),
        ({"advantages": np.ones(3)}, r"advantages must have the shape of rewards \(2,\) or of logprobs \(2, 4\)"),
        ({"answer_mask": ~MASK}, r"answer_mask must lie within mask, .* got True at \[0, 3\]"),
        ({"group_ids": [0.5, 1.0]}, "group_ids must hold integers, got dtype float64"),
        ({"control_ids": [1.5]}, "control_ids must hold integers, got dtype float64"),
        ({"control_ids": 5}, "control_ids must be one list of integers, got 5"),
        ({"correct": [1, 2]}, r"correct must hold only 0 and 1, got 2 at \[1\]"),
        ({"tool_calls": [1, -1]}, r"tool_calls must be at least 0, got -1 at \[1\]"),
        ({"tool_calls": [1, 1], "tool_calls_valid": [2, 1]}, r"tool_calls_valid must be between .*, got 2 at \[0\]"),
        ({"tool_calls_valid": [0, 1]}, "tool_calls_valid needs tool_calls, got none"),
        (
            {"tool_calls": [1, 1], "tool_calls_valid": [0, 1], "tool_calls_empty": [1, 1]},
            r"tool_calls_empty must be between .*, got 1 at \[0\]",
        ),
        ({"tool_calls": [0, 1], "tool_calls_empty": [0, 1]}, "tool_calls_empty needs tool_calls_valid, got none"),
        ({"texts": 3}, "texts must be a list of one text a response, got 3"),
        ({"texts": ["one"]}, r"texts must hold one text a response \(2\), got 1"),
        ({"trained": "no"}, "trained must be True, False or None for all responses, got 'no'"),
        ({"trained": np.array([True, False])}, "trained must be True, False or None for all responses, got array"),
        ({"clip_range": 0.0}, "clip_range must be ε or"),
    ],
)
def test_contradictions_are_located(changes, message):
    """Each contradiction names the array, the rule, the value and its place."""
    with pytest.raises(RolloutsError, match=message):
        rollouts(**changes)


@pytest.mark.parametrize("rubbish", [np.nan, np.inf, -np.inf, 5.0])
def test_values_outside_the_mask_do_not_matter(rubbish):
    """Padding and feedback may have any value."""
    expected = summarise(rollouts(entropies=-LOGPROBS))
    logprobs = np.where(MASK, LOGPROBS, rubbish)
    assert summarise(rollouts(logprobs=logprobs, entropies=-logprobs)) == expected


def test_non_finite_values_are_counted_and_not_refused():
    """NaN and Inf on action tokens, rewards and advantages are data."""
    logprobs = LOGPROBS.copy()
    logprobs[0, 0], logprobs[0, 1] = np.nan, np.inf
    signals = summarise(rollouts(logprobs=logprobs, rewards=[np.nan, 1.0], advantages=[np.inf, 0.0]))
    assert signals["finite/bad_values"].value() == 4
    assert signals["reward/mean"].value() == 1.0


def test_a_ratio_beyond_every_float_is_infinite_and_no_warning():
    """exp(800) is no float64; where a training makes warnings errors, all signals of the step would be lost."""
    signals = summarise(rollouts(old_logprobs=LOGPROBS - 800))
    assert signals["ratio/max"].value() == np.inf
    assert signals["likelihood/correct"].value() == -2.0


def test_the_trainer_may_overwrite_its_arrays():
    """Arrays are copied when the rollouts are made, and the copies are read-only."""
    logprobs = LOGPROBS.copy()
    held = rollouts(logprobs=logprobs)
    logprobs[:] = -100
    assert np.array_equal(held.logprobs, LOGPROBS)
    with pytest.raises(ValueError, match="read-only"):
        held.logprobs[0, 0] = 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_torch_tensors_are_accepted(dtype):
    """Tensors of every precision, with gradients, give the same signals as their values in numpy."""
    tensor = torch.tensor(LOGPROBS, dtype=dtype, requires_grad=True)
    held = Rollouts(tensor, torch.tensor(MASK), torch.tensor(REWARDS), group_ids=torch.tensor([0, 0]))
    assert np.array_equal(held.logprobs, tensor.detach().to(torch.float64).numpy())
    assert summarise(held)["likelihood/correct"].value() == -2.0


def test_correct_is_a_positive_reward_unless_given():
    """A response is correct if its reward is positive, or by the trainer's own `correct`."""
    assert rollouts().is_correct.tolist() == [True, False]
    assert rollouts(correct=[0, 1]).is_correct.tolist() == [False, True]
    ungraded = rollouts(rewards=[np.nan, np.inf])
    assert [ungraded.is_correct.any(), ungraded.is_incorrect.any()] == [False, False]
    assert rollouts(rewards=[np.nan, 1.0], correct=[0, 1]).is_incorrect.tolist() == [True, False]


def test_a_policy_that_is_certain_of_everything_is_accepted_if_its_entropy_is_0():
    """Collapse to certainty gives exact zeros, which must not be mistaken for missing values."""
    held = rollouts(logprobs=np.zeros((2, 4)), entropies=np.zeros((2, 4)))
    assert summarise(held)["likelihood/correct"].value() == 0


def test_actions_are_the_runs_of_the_mask():
    """Two actions around feedback: per-token means (−1−3)/2 = −2 and −6, over both (−1−3−6)/3 = −10/3."""
    held = Rollouts([[-1.0, -3.0, -9.0, -6.0]], [[1, 1, 0, 1]], [1.0])
    signals = summarise(held)
    assert signals["likelihood/action0"].value() == -2.0
    assert signals["likelihood/action1"].value() == -6.0
    assert signals["likelihood/correct"].value() == pytest.approx(-10 / 3)
    assert "likelihood/action2" not in signals


def test_on_policy_ratios_are_absent():
    """Where old equals new, the ratio is 1 and the displacement 0 by construction: nothing was observed."""
    signals = summarise(rollouts(old_logprobs=LOGPROBS, advantages=[1.0, -1.0], clip_range=0.2, trained=True))
    assert not [name for name in signals if name.startswith(("ratio/", "lld/", "displacement/", "kl/"))]


def test_displacement_by_hand():
    """Two actions of a preserved response: Σd = (0.4 − 0.1) > 0 in the first, −0.5 in the second; in all −0.2."""
    logprobs = np.array([[-1.4, -0.9, -5.0, -1.0]])
    old = np.array([[-1.0, -1.0, -5.0, -1.5]])
    signals = summarise(Rollouts(logprobs, [[1, 1, 0, 1]], [1.0], old_logprobs=old, advantages=[0.0], trained=False))
    values = {name: summary.value() for name, summary in signals.items()}
    assert values["lld/penalty_tokens_frac"] == pytest.approx(1 / 3)
    assert values["lld/gated_actions_frac"] == pytest.approx(1 / 2)
    assert values["lld/gated_responses_frac"] == 0
    assert values["displacement/cross"] == pytest.approx(0.2 / 3)
    assert "displacement/self" not in values
