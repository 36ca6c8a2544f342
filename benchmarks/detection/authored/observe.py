"""From hidden state to telemetry: sampling noise, selection, gaps, resumes, under canonical signal names."""

from collections.abc import Iterator

import numpy as np

from benchmarks.detection.authored.groups import all_correct
from benchmarks.detection.authored.latent import Latent
from benchmarks.detection.authored.noise import HORIZON, Floats, ar1, unit_noise
from monitor_server.detection.protocol import Observation

__all__ = ["PAIRED", "observe"]

PAIRED = "entropy/paired_delta"
STEP_SECONDS = 30.0


def observe(latent: Latent, rng: np.random.Generator) -> list[Observation]:
    """Measure a run: one observation a logged row, replayed steps after a resume included."""
    signals = _signals(latent, rng)
    replay = _signals(latent, rng) if latent.resumes else signals
    absent = rng.random((HORIZON, len(signals))) < latent.absent_values
    rows = []
    for index, (step, attempt) in enumerate(_rows(latent)):
        source = signals if attempt == 1 else replay
        values = {name: float(array[step]) for name, array in source.items() if not _is_unobserved(latent, name, step)}
        kept = {name: value for k, (name, value) in enumerate(values.items()) if not absent[step, k]}
        rows.append(
            Observation(
                step=step,
                signals=kept,
                attempt=attempt,
                time=index * STEP_SECONDS,
                data_version=f"v{sum(step >= change for change in latent.data_changes)}",
            )
        )
    return rows


def _rows(latent: Latent) -> Iterator[tuple[int, int]]:
    """Return (step, attempt) in the order in which the rows were logged."""
    start = 0
    for number, (last, lost) in enumerate([*latent.resumes, (latent.steps - 1, 0)]):
        for step in range(start, last + 1):
            if step not in latent.absent_rows and step % latent.stride == 0:
                yield step, number + 1
        start = max(0, last + 1 - lost)


def _is_unobserved(latent: Latent, name: str, step: int) -> bool:
    return name in latent.unobserved and bool(latent.unobserved[name][step])


def _signals(latent: Latent, rng: np.random.Generator) -> dict[str, Floats]:
    """Return every signal as an array over steps, each with the sampling noise its count of responses implies."""

    def noise(sd: float | Floats) -> Floats:
        white = unit_noise(rng, tail=latent.tail)
        return latent.noise * sd * ar1(white, rho=float(rng.uniform(0.0, 0.3)))

    prompts, group = latent.prompts, latent.group_size
    success = np.clip(latent.quality, 1e-3, 1.0 - 1e-3)
    shown = np.clip(success + latent.proxy, 1e-3, 1.0 - 1e-3)
    reward_sd = np.sqrt(shown * (1.0 - shown) * (1.0 / (prompts * group) + 0.3 / prompts))
    reward = np.clip(np.round((shown + noise(reward_sd)) * prompts * group) / (prompts * group), 0.0, 1.0)
    right, wrong = all_correct(shown, group), all_correct(1.0 - shown, group)
    entropy = np.maximum(latent.entropy + latent.mix, 5e-3)
    likelihood_sd = 0.2 / np.sqrt(np.maximum(prompts * shown, 1.0))
    selected = latent.selection * (success - success[0])
    correct = -(0.8 * entropy + latent.displaced + selected) + noise(likelihood_sd)
    ratio = np.maximum(latent.log_ratio + noise(0.15), 0.02)
    weight_spread = 0.02 * np.expm1(np.clip(latent.log_ratio + noise(0.1), 0.0, 12.0))
    length = latent.length * np.exp(noise(0.15 / np.sqrt(prompts)))
    paired_sd = rng.uniform(0.0003, 0.0009)
    policy = np.maximum(latent.entropy, 5e-3)
    paired = np.append(np.diff(policy), 0.0) + noise(paired_sd)
    grad = np.exp(latent.log_grad + noise(float(rng.uniform(0.1, 0.25))))
    bad = np.zeros(HORIZON) if latent.bad_from is None else (np.arange(HORIZON) >= latent.bad_from).astype(float)
    broken = np.where(bad > 0, np.nan, 1.0)
    more = {} if latent.advantage_corr is None else {"advantage/reward_corr": latent.advantage_corr}
    signals = more | {
        "reward/mean": reward,
        "reward/std": np.sqrt(reward * (1.0 - reward)),
        "reward/correct_frac": reward,
        "reward/zero_std_frac": np.clip(right + wrong + noise(0.2 / np.sqrt(prompts)), 0.0, 1.0),
        "reward/all_correct_frac": np.clip(right + noise(0.15 / np.sqrt(prompts)), 0.0, 1.0),
        "reward/all_wrong_frac": np.clip(wrong + noise(0.15 / np.sqrt(prompts)), 0.0, 1.0),
        "likelihood/correct": correct,
        "likelihood/incorrect": -(0.95 * entropy + 1.3 * latent.displaced + 0.1) + noise(0.2 / np.sqrt(prompts)),
        "likelihood/correct_seq": correct * length,
        "likelihood/action0": correct + 0.05 - 0.6 * latent.displaced + noise(likelihood_sd),
        "likelihood/action1": correct - 0.05 + 0.2 * latent.displaced + noise(likelihood_sd),
        "entropy/mean": np.maximum(entropy + noise(0.1 / np.sqrt(prompts)), 0.0),
        PAIRED: paired * broken,
        "grad/norm": grad * broken,
        "ratio/max": np.exp(ratio),
        "ratio/ess_frac": 1.0 / (1.0 + np.maximum(weight_spread, 0.0)),
        "ratio/clip_frac": np.clip(0.004 * np.exp(0.8 * latent.log_ratio + noise(0.2)), 0.0, 1.0),
        "mismatch/kl": np.exp(latent.log_mismatch + noise(0.2)),
        "kl/old": np.maximum(2e-4 * np.exp(latent.log_ratio) + noise(1e-4), 0.0),
        "kl/ref": np.maximum(_distance(policy) + 0.3 * latent.displaced + 1e-3 + noise(2e-3), 0.0),
        "loss/policy": noise(0.02) * broken,
        "lr": 1e-6 * np.minimum(1.0, (np.arange(HORIZON) + 1.0) / max(latent.warmup, 1)),
        "length/mean": length,
        "length/truncated_frac": np.clip(latent.truncated + noise(0.1 / np.sqrt(prompts)), 0.0, 1.0),
        "tools/calls": np.maximum(latent.tool_calls + noise(0.4 / np.sqrt(prompts)), 0.0),
        "tools/valid_frac": np.clip(latent.tools_valid + noise(0.2 / np.sqrt(prompts)), 0.0, 1.0),
        "tools/none_frac": np.clip(np.exp(-2.0 * latent.tool_calls) + noise(0.1 / np.sqrt(prompts)), 0.0, 1.0),
        "control/prob": np.clip(latent.control_prob + noise(0.003), 0.0, 1.0),
        "text/repetition": np.clip(latent.repetition + noise(0.01), 0.0, 1.0),
        "finite/bad_values": bad,
    }
    return signals if latent.reported is None else latent.reported(signals)


def _distance(policy: Floats) -> Floats:
    """Return a reference divergence that grows with the path the policy has gone, nats per token."""
    steps = np.arange(HORIZON)
    distance: Floats = 2e-4 * steps + 0.05 * (policy - policy[0]) ** 2
    return distance
