"""Runs that need no alarm, each with something about it that has fooled a detector."""

import numpy as np

from benchmarks.detection.authored.latent import Kind, Latent, learning
from benchmarks.detection.authored.noise import HORIZON, Floats

__all__ = ["KINDS", "saturating_rise"]

STEPS = np.arange(HORIZON, dtype=np.float64)


def healthy(rng: np.random.Generator) -> Latent:
    """Learn, and settle."""
    return learning(rng)


def plateau(rng: np.random.Generator) -> Latent:
    """Learn a little at once, then nothing."""
    return learning(rng, gain=(0.0, 0.1), settling=(5.0, 30.0), entropy_drop=(0.0, 0.1))


def length_growth(rng: np.random.Generator) -> Latent:
    """Write 2 to 3.7 times as much by the end, as models that learn to think do."""
    latent = learning(rng)
    growth = rng.uniform(2.0, 3.7) ** _ramp(rng, start=(20, 120), duration=(60, 180))
    latent.length = latent.length * growth
    latent.truncated = np.clip(latent.truncated + 0.02 * (growth - 1.0), 0.0, 1.0)
    return latent


def big_warmup(rng: np.random.Generator) -> Latent:
    """Warm the learning rate up for 20 to 60 steps, with large gradients and a fast entropy change at the start."""
    latent = learning(rng)
    latent.warmup = int(rng.integers(20, 61))
    decay = np.exp(-STEPS / rng.uniform(6.0, 20.0))
    latent.log_grad = latent.log_grad + rng.uniform(0.8, 2.0) * decay
    latent.entropy = latent.entropy + rng.uniform(-0.15, 0.15) * (1.0 - decay)
    return latent


def small_batch(rng: np.random.Generator) -> Latent:
    """Sample 8 or 16 prompts a step."""
    return learning(rng, prompts=int(rng.choice([8, 16])))


def epochs(rng: np.random.Generator) -> Latent:
    """See the prompts again every 50 to 110 steps: reward and likelihood jump up, the entropy of the mix down."""
    latent = learning(rng, gain=(0.05, 0.25))
    epoch = STEPS // rng.integers(50, 111)
    latent.quality = np.clip(latent.quality + rng.uniform(0.02, 0.06) * epoch, 0.01, 0.95)
    latent.mix = -rng.uniform(0.01, 0.04) * epoch
    return latent


def curriculum_step(rng: np.random.Generator) -> Latent:
    """Switch to harder prompts at once; every other run declares it in its data version."""
    latent = learning(rng)
    at = int(rng.integers(60, 240))
    _harden(latent, rng, (at <= STEPS).astype(np.float64))
    if rng.random() < 0.5:  # noqa: PLR2004 - a coin
        latent.data_changes = [at]
    return latent


def curriculum_ramp(rng: np.random.Generator) -> Latent:
    """Harden the prompts step by step: entropy up, likelihood down, and the policy has not moved."""
    latent = learning(rng)
    _harden(latent, rng, _ramp(rng, start=(30, 160), duration=(60, 150)))
    return latent


def exploration(rng: np.random.Generator) -> Latent:
    """Explore more, up to a point (clip-higher): a real drift that looks like phase II and does no harm."""
    latent = learning(rng, entropy_drop=(0.0, 0.15))
    latent.entropy = latent.entropy + saturating_rise(rng, start=int(rng.integers(30, 160)))
    return latent


def gradient_spikes(rng: np.random.Generator) -> Latent:
    """Meet 2 to 7 gradient spikes of 4 to 30 times for 1 to 3 steps, half of them with a dip in reward."""
    latent = learning(rng)
    for at in rng.integers(15, 290, size=int(rng.integers(2, 8))):
        last = at + int(rng.integers(1, 4))
        height = np.log(rng.uniform(4.0, 30.0))
        latent.log_grad[at:last] += height
        latent.log_ratio[at:last] += 0.3 * height
        if rng.random() < 0.5:  # noqa: PLR2004 - a coin
            latent.quality[at:last] *= rng.uniform(0.5, 0.9)
    return latent


def resume(rng: np.random.Generator) -> Latent:
    """Fall back 3 to 25 steps to a checkpoint, once or twice, with a cold optimiser for some steps."""
    latent = learning(rng)
    for last in sorted(rng.integers(50, 280, size=int(rng.integers(1, 3))).tolist()):
        lost = int(rng.integers(3, 26))
        if latent.resumes and last - lost <= latent.resumes[-1][0]:
            continue
        latent.resumes.append((last, lost))
        cold = np.where(last - lost < STEPS, np.exp(-(STEPS - last + lost) / 3.0), 0.0)
        latent.log_grad = latent.log_grad + rng.uniform(0.4, 1.4) * cold
        latent.log_ratio = latent.log_ratio + rng.uniform(0.1, 0.5) * cold
    return latent


def gaps(rng: np.random.Generator) -> Latent:
    """Lose whole stretches of rows, single rows and single values."""
    latent = learning(rng)
    latent.absent_rows = set(np.flatnonzero(rng.random(HORIZON) < rng.uniform(0.02, 0.15)).tolist())
    for at in rng.integers(20, 280, size=3):
        latent.absent_rows |= set(range(int(at), int(at + rng.integers(5, 31))))
    latent.absent_values = rng.uniform(0.01, 0.1)
    return latent


def heavy_tails(rng: np.random.Generator) -> Latent:
    """Measure with Student's t of 3 degrees of freedom and half as much noise again."""
    latent = learning(rng)
    latent.tail, latent.noise = 3.0, 1.5
    return latent


def stagnation(rng: np.random.Generator) -> Latent:
    """Stay in phase I for good: reward creeps up, likelihood is flat, entropy rises a little and stops."""
    latent = learning(rng, gain=(0.05, 0.2), entropy_drop=(0.0, 0.05))
    rise = rng.uniform(0.0, 0.03)
    latent.entropy = latent.entropy + rise * (1.0 - np.exp(-STEPS / rng.uniform(20.0, 80.0)))
    return latent


def wandering(rng: np.random.Generator) -> Latent:
    """Move about in entropy twice as much as others, with more momentum, to no end."""
    return learning(rng, wander_strength=2.0, momentum=(0.7, 0.8))


def sparse_logging(rng: np.random.Generator) -> Latent:
    """Log every second to fifth step."""
    latent = learning(rng)
    latent.stride = int(rng.integers(2, 6))
    latent.steps = HORIZON
    return latent


def late_learning(rng: np.random.Generator) -> Latent:
    """Learn nothing for 60 to 160 steps, then much within 20: entropy falls and gradients swell as it clicks."""
    latent = learning(rng, gain=(0.0, 0.02))
    click = 1.0 / (1.0 + np.exp(-(STEPS - rng.integers(60, 160)) / rng.uniform(4.0, 10.0)))
    latent.quality = np.clip(0.05 + rng.uniform(0.2, 0.5) * click, 0.01, 0.95)
    latent.entropy = latent.entropy * (1.0 - rng.uniform(0.05, 0.3) * click)
    latent.log_grad = latent.log_grad + rng.uniform(0.2, 0.7) * 4.0 * click * (1.0 - click)
    return latent


def saturating_rise(rng: np.random.Generator, *, start: int) -> Floats:
    """Return an entropy rise of 0.0008 to 0.002 nat/step at first that levels off within 40 to 100 steps."""
    duration = rng.uniform(40.0, 100.0)
    rate = rng.uniform(0.0008, 0.002)
    return rate * duration * 0.5 * (1.0 - np.exp(-np.maximum(STEPS - start, 0.0) / (0.5 * duration)))


def _ramp(rng: np.random.Generator, *, start: tuple[int, int], duration: tuple[int, int]) -> Floats:
    return np.clip((STEPS - rng.integers(*start)) / rng.integers(*duration), 0.0, 1.0)


def _harden(latent: Latent, rng: np.random.Generator, share: Floats) -> None:
    """Return a growing ``share`` of harder prompts: less reward, more entropy, longer responses, same policy."""
    latent.quality = latent.quality * (1.0 - rng.uniform(0.1, 0.45) * share)
    latent.mix = latent.mix + rng.uniform(0.03, 0.2) * share
    latent.length = latent.length * (1.0 + rng.uniform(0.0, 0.5) * share)


KINDS: dict[str, Kind] = {
    kind.__name__: kind
    for kind in (
        healthy,
        plateau,
        length_growth,
        big_warmup,
        small_batch,
        epochs,
        curriculum_step,
        curriculum_ramp,
        exploration,
        gradient_spikes,
        resume,
        gaps,
        heavy_tails,
        stagnation,
        wandering,
        sparse_logging,
        late_learning,
    )
}
