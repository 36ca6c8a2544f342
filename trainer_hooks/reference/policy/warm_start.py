"""Supervised warm start on demonstrations, kept on disk so that a second run begins at once."""

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import torch
from torch import Tensor

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.facts_task.demonstrations import Demonstration, Flaws, demonstrate
from trainer_hooks.reference.facts_task.facts import Facts
from trainer_hooks.reference.facts_task.world import vocabulary_of
from trainer_hooks.reference.policy.model import PolicyModel, Shape
from trainer_hooks.reference.policy.token_statistics import token_statistics

__all__ = ["shape_of", "warm_start"]

_BATCH = 32
_VERSION = 3
"""Increased with each change to the world, the model or this module that makes cached warm starts stale."""


def shape_of(config: Config) -> Shape:
    """Return the model size of a configuration."""
    return Shape(len(vocabulary_of(config)), config.context, config.width, config.layers, config.heads)


def warm_start(config: Config, *, report: Callable[[str], None] = lambda _: None) -> PolicyModel:
    """Return the model that GRPO starts from: read from the cache, or trained now and written there.

    Every batch comes from a world of its own, so the model learns to search, read and copy, and not the facts.
    The warm start depends on the configuration's world and model alone, never on its ``seed``.
    """
    path = _path(config)
    if path.exists():
        model = _fresh(config)
        model.load_state_dict(torch.load(path, weights_only=True))
        report(f"warm start read from {path}")
        return model
    model = _train(config, report)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own, because the ranks of a launch, which share a cache, write at the same time.
    with NamedTemporaryFile(dir=path.parent, prefix=path.stem, suffix=".part", delete=False) as part:
        torch.save(model.state_dict(), part)
    Path(part.name).replace(path)
    return model


def _path(config: Config) -> Path:
    relevant: tuple[object, ...] = (
        _VERSION, config.entities, config.long_form, config.max_actions, config.retry, config.width, config.layers,
        config.heads, config.context, config.warm_steps, config.warm_lr,
    )  # fmt: skip
    relevant += (config.thought_words,) if config.thought_words else ()
    text = (config.thought_choices, config.wrong_thought_factor)
    relevant += text if text != (4, 1.0) else ()
    return config.cache / f"warm-{hashlib.blake2b(repr(relevant).encode(), digest_size=6).hexdigest()}.pt"


def _fresh(config: Config) -> PolicyModel:
    """Build a model with fixed random weights, and leave the global generator unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PolicyModel(shape_of(config))


def _train(config: Config, report: Callable[[str], None]) -> PolicyModel:
    model = _fresh(config)
    draw = random.Random(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.warm_lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, config.warm_lr, total_steps=config.warm_steps, pct_start=0.1
    )
    for step in range(config.warm_steps):
        tokens, mask = _batch(config, draw)
        logprobs, _ = token_statistics(model, tokens, mask)
        loss = -logprobs.sum() / mask.sum()
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 100 == 0 or step == config.warm_steps - 1:
            report(f"warm start {step + 1:>5}/{config.warm_steps}  loss {loss.item():.3f} nat a token")
    return model


def _batch(config: Config, draw: random.Random) -> tuple[Tensor, Tensor]:
    facts = Facts(vocabulary_of(config), seed=draw.getrandbits(32), long_form=config.long_form)
    demonstrations = [
        demonstrate(
            facts,
            facts.question(draw),
            draw,
            flaws=Flaws(),
            max_actions=config.max_actions,
            retry=config.retry,
            thought_words=config.thought_words,
            thought_choices=config.thought_choices,
            wrong_thought_factor=config.wrong_thought_factor,
        )
        for _ in range(_BATCH)
    ]
    return _pad(demonstrations, config.context)


def _pad(demonstrations: list[Demonstration], context: int) -> tuple[Tensor, Tensor]:
    length = min(context, max(len(item.tokens) for item in demonstrations))
    tokens = torch.zeros(len(demonstrations), length, dtype=torch.long)
    mask = torch.zeros(len(demonstrations), length, dtype=torch.bool)
    for row, item in enumerate(demonstrations):
        kept = min(length, len(item.tokens))
        tokens[row, :kept] = torch.tensor(item.tokens[:kept])
        mask[row, :kept] = torch.tensor(item.is_action[:kept])
    return tokens, mask
