"""The generator: determinism, truth, and noise like a real run's."""

import numpy as np
import pytest

from benchmarks.detection.authored.latent import collapse_step
from benchmarks.detection.authored.noise import HORIZON, ar1, unit_noise
from benchmarks.detection.authored.suite import (
    DEVELOPMENT_SEEDS,
    TEST_SEEDS,
    benign_kinds,
    displacement_kinds,
    failure_kinds,
    generator_hash,
    make_run,
    make_twins,
)
from tests.benchmarks.detection.signal_arrays import series

PAIRED = "entropy/paired_delta"
ALL_KINDS = [*benign_kinds(), *displacement_kinds(), *failure_kinds()]


def test_there_are_as_many_kinds_as_promised():
    """At least 15 benign kinds, 6 displacement kinds and 5 other failures, none named twice."""
    assert len(benign_kinds()) >= 15
    assert len(displacement_kinds()) >= 6
    assert len(failure_kinds()) >= 5
    assert len(set(ALL_KINDS)) == len(ALL_KINDS)


def test_development_and_test_seeds_are_disjoint():
    """No run of the reported seeds was used in development."""
    assert not set(DEVELOPMENT_SEEDS) & {TEST_SEEDS.start, TEST_SEEDS.stop - 1}
    assert DEVELOPMENT_SEEDS.stop <= TEST_SEEDS.start


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_seed_gives_the_same_run_every_time_and_another_seed_another(kind):
    """Equal to the last bit, NaN included; rows are in order within an attempt."""
    run, again, other = make_run(kind, 3), make_run(kind, 3), make_run(kind, 4)
    assert repr(run) == repr(again)
    assert repr(run.observations) != repr(other.observations)
    positions = [(observation.attempt, observation.step) for observation in run.observations]
    assert positions == sorted(positions)


@pytest.mark.parametrize("kind", [*displacement_kinds(), *failure_kinds()])
def test_truth_is_in_order(kind):
    """0 < t₁ ≤ t₂ ≤ T_c, t₁ < t₂ where there is a phase II, and the rows go past the collapse."""
    for seed in range(12):
        run = make_run(kind, seed)
        truth = run.truth
        assert 0 < truth.onset <= truth.acceleration <= truth.collapse <= run.observations[-1].step
        if kind in displacement_kinds():
            assert truth.onset < truth.acceleration < truth.collapse


@pytest.mark.parametrize("kind", benign_kinds())
def test_benign_runs_have_no_onset(kind):
    """Nothing happens in them that needs an alarm."""
    truth = make_run(kind, 0).truth
    assert (truth.onset, truth.acceleration, truth.collapse) == (None, None, None)


def test_onsets_are_spread_so_that_no_step_gives_them_away():
    """The middle 80 % of displacement onsets spans more than 100 steps."""
    onsets = [make_run(kind, seed).truth.onset for kind in displacement_kinds() for seed in range(10)]
    low, high = np.quantile(onsets, [0.1, 0.9])
    assert high - low > 100


def test_phase_three_lasts_as_long_as_in_the_paper():
    """t₂ to T_c has a median near 26 steps (18 to 40) in standard runs (detection.md, 3.1)."""
    spans = [
        (truth := make_run("displacement/standard", seed).truth).collapse - truth.acceleration for seed in range(60)
    ]
    assert 20 <= np.median(spans) <= 34


def test_the_paired_channel_has_momentum():
    """AC1 of dH is near 0.5 to 0.7, as in the toy GRPO; white noise would give 0."""
    found = []
    for seed in range(40):
        delta = series(make_run("benign/healthy", seed), PAIRED)
        centred = delta - delta.mean()
        found.append(float((centred[1:] * centred[:-1]).sum() / (centred**2).sum()))
    assert 0.4 <= np.median(found) <= 0.75


def test_the_paired_channel_sums_to_the_entropy():
    """Σ dH reproduces H(t) − H(0) in a run that moves; harder prompts move H and not Σ dH."""
    run = make_run("displacement/slow", 1)
    before = [observation.step < run.truth.collapse for observation in run.observations]
    summed, entropy = np.cumsum(series(run, PAIRED))[before], series(run, "entropy/mean")[before]
    assert np.corrcoef(summed[:-1], entropy[1:])[0, 1] > 0.95
    ramps = [make_run("benign/curriculum_step", seed) for seed in range(20)]
    gaps = [series(r, "entropy/mean")[-20:].mean() - series(r, "entropy/mean")[:20].mean() for r in ramps]
    drifts = [series(r, PAIRED).sum() for r in ramps]
    assert np.median(np.array(gaps) - np.array(drifts)) > 0.05


def test_selection_lowers_the_likelihood_of_correct_responses_in_healthy_runs():
    """Harder prompts enter as the reward rises: likelihood/correct gains less than entropy falls."""
    runs = [make_run("benign/healthy", seed) for seed in range(30)]
    gains = [series(r, "likelihood/correct")[-30:].mean() - series(r, "likelihood/correct")[:30].mean() for r in runs]
    falls = [series(r, "entropy/mean")[:30].mean() - series(r, "entropy/mean")[-30:].mean() for r in runs]
    assert np.mean(gains) < 0.8 * np.mean(falls)


def test_a_resume_goes_back_in_a_new_attempt():
    """Steps are replayed, and the attempt counts up."""
    run = make_run("benign/resume", 0)
    attempts = [observation.attempt for observation in run.observations]
    first = attempts.index(2)
    assert run.observations[first].step <= run.observations[first - 1].step


def test_autoregressive_noise_keeps_its_variance():
    """AR(1) noise of ρ = 0.7 has unit variance and autocorrelation 0.7."""
    rng = np.random.default_rng(0)
    drawn = np.array([ar1(unit_noise(rng), rho=0.7) for _ in range(200)])
    assert drawn.shape[1] == HORIZON
    assert drawn.var() == pytest.approx(1.0, rel=0.05)
    assert (drawn[:, 1:] * drawn[:, :-1]).mean() == pytest.approx(0.7, abs=0.05)


def test_collapse_is_where_success_falls_under_half_for_good():
    """EMA₀.₂ of a fall from 1 to 0 at step 50 is 0.8ⁿ < 0.5 from n = 4 on: step 53; a dip of 5 steps is none."""
    quality = np.ones(100)
    quality[50:] = 0.0
    assert collapse_step(quality) == 53
    quality[55:] = 1.0
    assert collapse_step(quality) is None
    assert collapse_step(quality, bad_from=7) == 7


@pytest.mark.parametrize("twin", ["exploring", "harder_prompts"])
def test_twins_are_equal_until_the_acceleration(twin):
    """Every signal before t₂ is the same number; with harder prompts, all but the policy's own."""
    dead, alive = make_twins(twin, 5)
    turn = dead.truth.acceleration
    policy = {PAIRED, "kl/ref"} if twin == "harder_prompts" else set()
    for ours, theirs in zip(dead.observations[: turn - 1], alive.observations, strict=False):
        assert {k: v for k, v in ours.signals.items() if k not in policy} == pytest.approx(
            {k: v for k, v in theirs.signals.items() if k not in policy}, abs=1e-9
        )
    assert alive.truth.collapse is None
    last = dead.truth.collapse
    assert dead.observations[last].signals["reward/mean"] < alive.observations[last].signals["reward/mean"]


def test_an_unknown_kind_is_refused_by_name():
    """The message lists the kinds that exist."""
    with pytest.raises(ValueError, match="benign/healthy"):
        make_run("benign/nothing", 0)


def test_the_generator_has_a_fingerprint():
    """Twelve hexadecimal digits, the same twice."""
    assert generator_hash() == generator_hash()
    assert len(generator_hash()) == 12
