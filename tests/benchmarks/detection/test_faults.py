"""Authored faults: one named cause each, at several levels, beside a healthy twin that measures the same signals."""

import numpy as np
import pytest

from benchmarks.detection.authored.groups import all_correct, all_marked
from benchmarks.detection.authored.suite import benign_kinds, displacement_kinds, failure_kinds, fault_kinds, make_fault
from benchmarks.detection.runs import Group
from tests.benchmarks.detection.signal_arrays import series


def test_faults_are_kinds_of_their_own():
    """None of them is scored with the kinds that need no alarm or that collapse."""
    assert len(fault_kinds()) == len(set(fault_kinds())) >= 40
    assert not {*fault_kinds()} & {*benign_kinds(), *displacement_kinds(), *failure_kinds()}


@pytest.mark.parametrize("kind", fault_kinds())
def test_a_fault_equals_its_healthy_twin_until_its_onset_and_differs_from_it_later(kind):
    """Signals and their noise agree up to rounding before the onset; both runs measure the same signals."""
    faulty, twin = make_fault(kind, 3)
    assert (faulty.truth.group, twin.truth.group) == (Group.FAULT, Group.BENIGN)
    assert (twin.truth.onset, twin.truth.collapse) == (None, None)
    assert repr(make_fault(kind, 3)) == repr((faulty, twin))
    onset = faulty.truth.onset
    assert onset == 0 or 20 <= onset < 250
    for ours, theirs in zip(faulty.observations[:onset], twin.observations, strict=False):
        assert ours.signals == pytest.approx(theirs.signals, rel=1e-6, abs=1e-12)
    late = zip(faulty.observations[onset : onset + 40], twin.observations[onset : onset + 40], strict=True)
    assert any(ours.signals != pytest.approx(theirs.signals, rel=1e-3) for ours, theirs in late)
    names = {name for observation in twin.observations for name in observation.signals}
    assert {name for observation in faulty.observations for name in observation.signals} <= names


def test_levels_of_a_fault_share_their_noise_and_their_twin():
    """A higher level differs by the level alone."""
    (weak, twin), (strong, same_twin) = make_fault("fault/rate_rise-3", 1), make_fault("fault/rate_rise-40", 1)
    assert repr(twin) == repr(same_twin)
    assert weak.truth.onset == strong.truth.onset
    after = weak.truth.onset
    assert series(strong, "lr")[after] / series(weak, "lr")[after] == pytest.approx(40 / 3)


@pytest.mark.parametrize(("floor", "slope"), [(0.0, 1.0), (0.3, 0.7), (1.0, -1.0), (0.4, 0.2)])
def test_the_share_of_groups_that_a_faulty_grader_marks_alike_is_that_of_drawn_groups(floor, slope):
    """A million groups are drawn: success rates from the Beta law, marks with probability a + b p."""
    rng = np.random.default_rng(0)
    rates = rng.beta(2.0 * 0.3, 2.0 * 0.7, 1_000_000)
    marked = rng.binomial(5, floor + slope * rates) == 5
    found = all_marked(np.array([0.3]), 5, floor=np.array([floor]), slope=np.array([slope]))
    assert found[0] == pytest.approx(marked.mean(), abs=0.002)


def test_an_inverted_grader_marks_the_groups_that_were_all_wrong():
    """E[(1 − p)^G] is the share of groups without a correct response, also for sixteen responses."""
    success = np.array([0.05, 0.4, 0.9])
    inverted = all_marked(success, 16, floor=np.ones(3), slope=-np.ones(3))
    assert inverted == pytest.approx(all_correct(1.0 - success, 16), abs=1e-9)


def test_an_inverted_grader_swaps_the_likelihoods_of_correct_and_incorrect_responses():
    """At the first inverted step the policy is still the twin's, and so are its likelihoods."""
    faulty, twin = make_fault("fault/grader_inverted-1", 2)
    ours, theirs = (run.observations[faulty.truth.onset].signals for run in (faulty, twin))
    assert ours["likelihood/correct"] == pytest.approx(theirs["likelihood/incorrect"], abs=0.02)
    assert ours["likelihood/incorrect"] == pytest.approx(theirs["likelihood/correct"], abs=0.02)
    assert ours["reward/mean"] == pytest.approx(1.0 - theirs["reward/mean"], abs=0.02)


@pytest.mark.parametrize("kind", ["fault/grader_constant-1", "fault/constant_from_start-1"])
def test_a_constant_grader_leaves_one_of_the_likelihoods_without_responses(kind):
    """All groups are silent, nothing is learned, and no response is marked correct, or none incorrect."""
    verdicts = set()
    for seed in range(8):
        faulty, _ = make_fault(kind, seed)
        row = faulty.observations[faulty.truth.onset + 1].signals
        assert (row["reward/zero_std_frac"], row["reward/std"], row["grad/norm"]) == (1.0, 0.0, 0.0)
        assert ("likelihood/correct" in row) == (row["reward/mean"] == 1.0)
        assert ("likelihood/incorrect" in row) == (row["reward/mean"] == 0.0)
        verdicts.add(row["reward/mean"])
    assert verdicts == {0.0, 1.0}


def test_stale_responses_repeat_their_rewards_for_as_many_rows_as_passes():
    """Reward and length hold within a batch, and the divergence from the sampler grows with each pass."""
    faulty, _ = make_fault("fault/stale_responses-8", 4)
    start = faulty.truth.onset
    lengths, far = series(faulty, "length/mean")[start : start + 24], series(faulty, "kl/old")[start : start + 24]
    for batch, distances in zip(lengths.reshape(3, 8), far.reshape(3, 8), strict=True):
        assert len(set(batch)) == 1
        assert distances[-1] > 3.0 * distances[0]
    assert len(set(lengths)) == 3


def test_numbers_are_recomputed_at_some_steps_only_and_agree_in_the_twin():
    """The first row is one of them; a sound mask has no wrong token, and rounding stays far under the gap."""
    faulty, twin = make_fault("fault/recomputed_mask-0.2", 1)
    compared = np.flatnonzero(~np.isnan(series(twin, "instrument/mask_frac")))
    assert compared[0] == 0
    assert len({*np.diff(compared)}) == 1
    assert np.nanmax(series(twin, "instrument/mask_frac")) == 0.0
    assert np.nanmin(series(faulty, "instrument/mask_frac")) > 0.05
    assert np.nanmax(series(twin, "instrument/logprob_abs")) < 0.03


@pytest.mark.parametrize(
    ("kind", "signal", "low", "high"),
    [
        ("tools_fail-1", "tools/valid_frac", 0.0, 0.1),
        ("tools_silent-1", "tools/empty_frac", 0.99, 1.0),
        ("limit_lowered-0.98", "length/truncated_frac", 0.9, 1.0),
        ("cut_from_start-0.99", "length/truncated_frac", 0.9, 1.0),
        ("questions_lost-1", "reward/mean", 0.0, 0.1),
        ("opposed_from_start-1", "advantage/reward_corr", -1.0, -0.9),
        ("zero_rate-0", "lr", 0.0, 0.0),
        ("frozen_ratio-0", "kl/old", 0.0, 0.0),
        ("sampler_gap-0.2", "mismatch/logprob_abs", 0.15, 0.3),
        ("feedback_in_mask-1", "tools/unbroken_frac", 1.0, 1.0),
        ("likelihood_sign-1", "likelihood/correct", 0.01, 3.0),
        ("likelihood_zero-1", "likelihood/incorrect", 0.0, 0.0),
    ],
)
def test_a_fault_shows_in_the_signal_that_measures_it(kind, signal, low, high):
    """From the onset on the signal lies where the fault puts it, and in the twin it does not."""
    faulty, twin = make_fault(f"fault/{kind}", 6)
    start = faulty.truth.onset
    window = slice(start + 2, start + 12)
    assert low <= np.nanmin(series(faulty, signal)[window]) <= np.nanmax(series(faulty, signal)[window]) <= high
    sound = series(twin, signal)[window]
    assert not (low <= np.nanmin(sound) and np.nanmax(sound) <= high)


def test_an_unknown_fault_is_refused_by_name():
    """The message lists the faults that exist."""
    with pytest.raises(ValueError, match="fault/tools_fail-1"):
        make_fault("fault/nothing-1", 0)
