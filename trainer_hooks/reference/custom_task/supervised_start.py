"""A supervised start in which your own model learns the protocol: to search with the question, and then to answer."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.custom_task.environment import SearchEnvironment
from trainer_hooks.reference.custom_task.questions import TextQuestion
from trainer_hooks.reference.policy.supervised_training import (
    locate_cached_weights,
    read_or_train,
    train_on_demonstrations,
)
from trainer_hooks.reference.protocols import Demonstration, Policy

__all__ = ["demonstrate", "teach_protocol"]

_BATCH: Final = 8
_VERSION: Final = 1
"""Increased with each change to this module or to the environment that makes kept weights stale."""


def teach_protocol(
    policy: Policy, environment: SearchEnvironment, config: Config, *, report: Callable[[str], None]
) -> None:
    """Train a policy on demonstrations for ``protocol_steps``, or read the weights of an earlier run from the cache.

    The weights depend on the model, the questions, the prompt, the corpus and the settings of these steps, and never on
    ``seed``. They do not depend on the address of a retrieval server: weights that were kept with another address are
    read.

    Raises:
        ToolError: If the search tool does not answer.
    """
    draw = random.Random(0)

    def train() -> None:
        train_on_demonstrations(
            policy,
            lambda: demonstrate(environment, draw.choices(environment.questions, k=_BATCH)),
            steps=config.protocol_steps,
            lr=config.protocol_lr,
            context=config.context,
            report=report,
        )

    read_or_train(policy, _path(config), train, report=report)


def demonstrate(environment: SearchEnvironment, questions: Sequence[TextQuestion]) -> list[Demonstration]:
    """Play an episode of each question: a search with the question itself, then its first golden answer.

    Raises:
        ToolError: If the search tool does not answer.
    """
    episodes = [environment.episode(question) for question in questions]
    played = [Demonstration(list(each.prompt), [False] * len(each.prompt)) for each in episodes]
    for kind in ("search", "answer"):
        for episode, demonstration in zip(episodes, played, strict=True):
            question = episode.question
            text = question.question if kind == "search" else question.golden_answers[0]
            for token in environment.encode(f"<{kind}>{text}</{kind}>"):
                demonstration.tokens.append(token)
                demonstration.is_action.append(True)
                if episode.step(token):
                    break
        for demonstration, feedback in zip(played, environment.feedback(episodes), strict=True):
            demonstration.tokens.extend(feedback)
            demonstration.is_action.extend([False] * len(feedback))
    return played


def _path(config: Config) -> Path:
    files = [file for path in (config.model, config.questions, config.prompt, config.corpus) for file in _files(path)]
    states = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    relevant = (
        _VERSION, states, config.precision, config.protocol_steps, config.protocol_lr, config.context, config.topk,
        config.max_actions, config.max_action_tokens, config.max_feedback_tokens, config.matmul_precision,
    )  # fmt: skip
    return locate_cached_weights(config.cache, "protocol", relevant)


def _files(path: Path | None) -> list[Path]:
    if path is None:
        return []
    return sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
