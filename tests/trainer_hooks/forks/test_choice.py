"""The choice among several forks of a run."""

import math

import numpy as np
import pytest
import torch

from trainer_hooks.forks import CONTROL, Estimate, ForkMeasurement, choose


def fork(name, rewards, displacements, **others):
    """A fork with flat entropy, measured on as many responses as given."""
    return ForkMeasurement(
        name=name,
        steps=30,
        rewards=rewards,
        displacements=displacements,
        entropy_changes=[0.0] * len(displacements),
        **others,
    )


LEVEL = [0.0, 1.0] * 20
FALLING = [-0.2, -0.3] * 20
UNCHANGED = fork(CONTROL, LEVEL, FALLING)


def test_an_estimate_has_the_interval_of_its_mean():
    """Of 0 and 2: mean 1, s = √2, s/√2 = 1, t = 12.706, so 1 ± 12.706; one value has no interval, and NaN no mean."""
    assert Estimate.of([0.0, 2.0]) == Estimate(1.0, pytest.approx(-11.706), pytest.approx(13.706))
    assert Estimate.of([3.0]) == Estimate(3.0, -math.inf, math.inf)
    assert all(math.isnan(Estimate.of(values).mean) for values in ([], [1.0, math.nan], [math.inf]))


def test_the_run_goes_on_as_it_is_where_nothing_is_clearly_better():
    """The same numbers, or better ones within the noise: a warning may be wrong."""
    nearly = fork("llds", LEVEL, [-0.22, -0.27] * 20)
    choice = choose([UNCHANGED, fork("kl", LEVEL, FALLING), nearly])
    assert (choice.winner, choice.why) == (CONTROL, "no treatment is clearly better")


def test_likelihood_that_is_kept_decides_where_rewards_are_level():
    """It falls before the reward does; what keeps more of it wins."""
    half, penalised = fork("half-rate", LEVEL, [-0.01, -0.02] * 20), fork("llds", LEVEL, [-0.1, -0.2] * 20)
    choice = choose([UNCHANGED, penalised, half])
    assert choice.winner == "half-rate"
    gain = choice.scores[2].displacement_gain
    assert gain.mean == pytest.approx(0.235)  # (−0.01 + 0.2 and −0.02 + 0.3) / 2
    assert 0 < gain.low < gain.mean < gain.high


def test_a_fork_that_keeps_likelihood_at_the_cost_of_reward_does_not_win():
    """It has stopped learning."""
    assert choose([UNCHANGED, fork("kl", [0.0] * 40, [0.1, 0.0] * 20)]).winner == CONTROL


def test_a_higher_reward_comes_before_likelihood_and_noise_in_it_does_not():
    """A fork of clearly more reward beats one that only keeps likelihood; of two alike the one that keeps more wins."""
    keeping = fork("half-rate", LEVEL, [0.1, 0.0] * 20)
    rising = fork("llds", [1.0] * 40, FALLING)
    assert choose([UNCHANGED, keeping, rising]).winner == "llds"
    nearly = fork("nthr", [1.0] * 39 + [0.0], [0.0, 0.05] * 20)
    assert choose([UNCHANGED, keeping, rising, nearly]).winner == "nthr"


def test_a_fork_that_diverged_is_shown_and_cannot_win():
    """NaN anywhere, or a failure before its last step."""
    lost = fork("clip-higher", [1.0] * 40, [math.nan] * 40)
    failed = ForkMeasurement(name="nthr", steps=3, failure="logits must be finite")
    choice = choose([UNCHANGED, lost, failed])
    assert choice.winner == CONTROL
    assert [score.has_diverged for score in choice.scores] == [False, True, True]


def test_any_fork_that_lives_is_better_than_a_control_that_diverged():
    """Where no fork lives, the run goes on unchanged."""
    dead = ForkMeasurement(name=CONTROL, steps=2, failure="lost")
    assert choose([dead, fork("kl", LEVEL, FALLING)]).winner == "kl"
    assert choose([dead]).winner == CONTROL


def test_forks_need_a_control_and_names_of_their_own():
    """Otherwise nothing could be compared."""
    for forks in ([fork("kl", LEVEL, FALLING)], [UNCHANGED, UNCHANGED]):
        with pytest.raises(ValueError, match="one must be 'unchanged'"):
            choose(forks)


def test_forks_that_were_measured_on_other_contexts_are_refused():
    """Their differences would pair one question with another; a fork that failed has no numbers and is none of them."""
    fewer = fork("kl", LEVEL[:30], FALLING)
    with pytest.raises(ValueError, match=r"same contexts, got numbers of rewards of {'unchanged': 40, 'kl': 30}"):
        choose([UNCHANGED, fewer])
    assert choose([UNCHANGED, ForkMeasurement(name="nthr", steps=3, failure="lost")]).winner == CONTROL


@pytest.mark.parametrize(
    ("rewards", "displacements", "missing"), [([], [0.1] * 40, "rewards"), ([1.0] * 40, [], "displacements")]
)
def test_a_fork_without_numbers_that_others_have_is_refused(rewards, displacements, missing):
    """It did not fail, so it was not measured: its likelihood alone must not let it win."""
    with pytest.raises(ValueError, match=f"got numbers of {missing} of {{'unchanged': 40, 'kl': 0}}"):
        choose([UNCHANGED, fork("kl", rewards, displacements)])
    lost = ForkMeasurement(name=CONTROL, steps=3, failure="lost")
    with pytest.raises(ValueError, match=f"got numbers of {missing} of"):
        choose([lost, fork("kl", rewards, displacements), fork("nthr", LEVEL, FALLING)])


def test_forks_of_different_lengths_are_refused():
    """A fork of three steps has moved less than a control of thirty, whatever its treatment is."""
    short = ForkMeasurement(
        name="kl", steps=3, rewards=LEVEL, displacements=[0.0] * 40, entropy_changes=UNCHANGED.entropy_changes
    )
    with pytest.raises(ValueError, match=r"same number of steps, got {'unchanged': 30, 'kl': 3}; .* as failure"):
        choose([UNCHANGED, short])


@pytest.mark.parametrize("array", [np.array, torch.tensor])
def test_numbers_may_be_arrays(array):
    """The choice and its estimates are those of lists; a NaN in an array is found as well."""
    forks = [UNCHANGED, fork("kl", LEVEL, [-0.01, -0.02] * 20), fork("nthr", LEVEL, [math.nan] * 40)]
    arrays = [fork(each.name, array(each.rewards), array(each.displacements)) for each in forks]
    chosen, expected = choose(arrays), choose(forks)
    assert (chosen.winner, chosen.why) == (expected.winner, expected.why) == ("kl", expected.why)
    assert [score.has_diverged for score in chosen.scores] == [False, False, True]
    for score, other in zip(chosen.scores[:2], expected.scores[:2], strict=True):
        assert score.reward == other.reward
        assert score.displacement_gain.mean == pytest.approx(other.displacement_gain.mean, abs=1e-6)
