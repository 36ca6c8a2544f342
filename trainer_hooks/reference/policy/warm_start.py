"""Supervised warm start of the built-in model on demonstrations of the built-in environment."""

import random
from collections.abc import Callable
from pathlib import Path

import torch

from trainer_hooks.reference.builtin_task.demonstrations import Flaws, demonstrate
from trainer_hooks.reference.builtin_task.environment import vocabulary_of
from trainer_hooks.reference.builtin_task.facts import Facts
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.policy.model import ModelShape, PolicyModel
from trainer_hooks.reference.policy.supervised_training import (
    locate_cached_weights,
    read_or_train,
    train_on_demonstrations,
)
from trainer_hooks.reference.protocols import Demonstration

__all__ = ["shape_of", "warm_start"]

_BATCH = 32
_VERSION = 3
"""Increased with each change to the environment, the model or this module that makes cached warm starts stale."""


def shape_of(config: Config) -> ModelShape:
    """Return the model size of a configuration."""
    return ModelShape(len(vocabulary_of(config)), config.context, config.width, config.layers, config.heads)


def warm_start(config: Config, *, report: Callable[[str], None] = lambda _: None) -> PolicyModel:
    """Return the model that GRPO starts from: read from the cache, or trained now and written there.

    Every batch comes from another environment, so the model learns to search, read and copy, and not the facts.
    The warm start depends on the configuration's environment and model alone, never on its ``seed``.
    """
    model = _fresh(config)
    read_or_train(model, _path(config), lambda: _train(model, config, report), report=report)
    return model


def _path(config: Config) -> Path:
    relevant: tuple[object, ...] = (
        _VERSION, config.entities, config.long_form, config.max_actions, config.retry, config.width, config.layers,
        config.heads, config.context, config.warm_steps, config.warm_lr,
    )  # fmt: skip
    relevant += (config.thought_words,) if config.thought_words else ()
    text = (config.thought_choices, config.wrong_thought_factor)
    relevant += text if text != (4, 1.0) else ()
    relevant += (config.matmul_precision,) if config.matmul_precision != "highest" else ()
    return locate_cached_weights(config.cache, "warm", relevant)


def _fresh(config: Config) -> PolicyModel:
    """Build a model with fixed random weights, and leave the global generator unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PolicyModel(shape_of(config))


def _train(model: PolicyModel, config: Config, report: Callable[[str], None]) -> None:
    draw = random.Random(0)
    train_on_demonstrations(
        model,
        lambda: _batch(config, draw),
        steps=config.warm_steps,
        lr=config.warm_lr,
        context=config.context,
        report=report,
    )


def _batch(config: Config, draw: random.Random) -> list[Demonstration]:
    facts = Facts(vocabulary_of(config), seed=draw.getrandbits(32), long_form=config.long_form)
    return [
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
