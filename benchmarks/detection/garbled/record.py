"""``python -m benchmarks.detection.garbled.record``: trains, and records the signals of garbled responses.

The run of the reference trainer is healthy and is not changed. From step 41 on, copies of the responses of each step
are garbled, in every way and at every strength; the policy of that step scores the copies that are not fluent. The
recording has the run's own rows, and the signals that differ in each garbled row.
"""

import argparse
import copy
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.detection.garbled.garbling import GARBLINGS, Garbling
from benchmarks.detection.induced.record import write
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.protocols import Policy
from trainer_hooks.reference.run.telemetry import numbers
from trainer_hooks.reference.run.trainer import StepResult, Trainer
from trainer_hooks.reference.updates.batch import TrainingBatch, prepare
from trainer_hooks.signals import FamiliarTokens

__all__ = ["ONSET", "RECORDINGS", "SHARES", "SLOW", "TEMPERATURES", "main"]

RECORDINGS = Path("benchmarks/detection/garbled/recordings")
ONSET, STEPS = 41, 64
SHARES = (0.1, 0.3, 1.0)
SLOW = "over 20 steps"
RAMP = 20
# Sampling at 1.3 is a change of a setting, and its responses can still be read; at 3 they cannot.
TEMPERATURES = (1.3, 3.0)
# The signals that depend on token ids and their scores by the policy; rewards, lengths and updates stay those of the
# run.
DECIDED = ("text/", "likelihood/", "entropy/mean", "entropy/p95", "entropy/action")


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the runs of some seeds; an existing recording is kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection.garbled.record", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument("--seeds", type=int, default=6, help="how many (default: 6)")
    parser.add_argument("--folder", type=Path, default=RECORDINGS, help=f"default: {RECORDINGS}")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    for seed in range(options.first, options.first + options.seeds):
        path = options.folder / f"seed{seed}.jsonl.gz"
        if not path.exists():
            begin = time.process_time()
            write(path, {"seed": seed, "onset": ONSET}, list(_record(_config(seed))))
            sys.stderr.write(f"{path.name}: {time.process_time() - begin:.0f} s\n")
    return 0


def _config(seed: int) -> Config:
    """Return a run that learns and lives, with free text in its thoughts; even seeds have twice as much of it."""
    words = 16 if seed % 2 == 0 else 8
    return Config(
        seed=seed,
        steps=STEPS,
        lr=2e-4,
        thought_words=words,
        max_action_tokens=28 + 3 * words,
        context=144 + 8 * words,
        held_out=0,
    )


def _record(config: Config) -> Iterator[dict[str, Any]]:
    model = warm_start(config, report=lambda _: None)
    trainer, familiar = Trainer(config, model), FamiliarTokens()
    rng = np.random.default_rng(config.seed)
    while trainer.step_number < config.steps:
        before = copy.deepcopy(model).eval()
        result = trainer.step()
        own = numbers(result, clip=config.reported_clip, familiar=familiar)
        yield {"variant": "", "step": result.step} | own
        if result.step >= ONSET:
            for name, batch in _garbled(trainer, before, result, rng):
                other = replace(result, batch=batch)
                seen = numbers(other, clip=config.reported_clip, familiar=familiar)
                changed = {key: value for key, value in seen.items() if key.startswith(DECIDED)}
                yield {"variant": name, "step": result.step} | changed


def _garbled(
    trainer: Trainer, before: Policy, result: StepResult, rng: np.random.Generator
) -> Iterator[tuple[str, TrainingBatch]]:
    """Yield every variant of a step's responses by its name."""
    ramp = min(1.0, (result.step - ONSET + 1) / RAMP)
    for name, garbling in GARBLINGS.items():
        for share in SHARES if garbling.is_fluent else SHARES[1:]:  # scoring takes most of the time
            yield f"{name}, {share:g}", _garble(before, result.batch, garbling, share, rng)
        yield f"{name}, {SLOW}", _garble(before, result.batch, garbling, ramp, rng)
    for temperature in TEMPERATURES:
        yield f"temperature {temperature:g}", _sample(trainer, before, temperature, result.step)


@torch.no_grad()
def _garble(
    policy: Policy, batch: TrainingBatch, garbling: Garbling, share: float, rng: np.random.Generator
) -> TrainingBatch:
    tokens = garbling.apply(batch.tokens.numpy(), batch.mask.numpy(), share, policy.vocabulary, rng)
    garbled = replace(batch, tokens=torch.from_numpy(tokens))
    if garbling.is_fluent:
        return garbled
    logprobs, entropies = token_statistics(policy, garbled.tokens, garbled.mask)
    return replace(garbled, logprobs=logprobs, old_logprobs=logprobs, entropies=entropies)


def _sample(trainer: Trainer, policy: Policy, temperature: float, step: int) -> TrainingBatch:
    """Sample other responses of the same policy with a separate generator, so that the run does not change."""
    config, environment = trainer.config, trainer.environment
    draw, generator = random.Random(step), torch.Generator().manual_seed(1000 * config.seed + step)  # noqa: S311
    asked = draw.sample(environment.questions, config.questions_per_step)
    episodes = [environment.episode(question) for question in asked for _ in range(config.group_size)]
    rollout = policy.sample(environment, episodes, generator=generator, temperature=temperature)
    return prepare(policy, rollout, config, generator=generator)


if __name__ == "__main__":
    sys.exit(main())
