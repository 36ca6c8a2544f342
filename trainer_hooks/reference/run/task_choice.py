"""Chooses the policy and the environment of a run: the built-in ones, or your own model, questions and search tool."""

from collections.abc import Callable

import torch

from trainer_hooks.reference.builtin_task.environment import FactsEnvironment
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.protocols import Environment, Policy

__all__ = ["build_policy_and_environment"]


def build_policy_and_environment(
    config: Config, device: torch.device, *, report: Callable[[str], None] = lambda _: None
) -> tuple[Policy, Environment]:
    """Build the policy, with its supervised start, and the environment that the settings name.

    Args:
        config: Every setting.
        device: The device of the policy. The user's own model has its supervised start there; the built-in model is
            small enough for the CPU.
        report: Takes a line of progress.

    Raises:
        ValueError: If a file, a folder or the tool cannot be used; the message names it and the reason.
    """
    if config.model is None:
        return warm_start(config, report=report).to(device), FactsEnvironment(config)
    # The built-in environment needs neither transformers nor bm25s.
    try:
        from trainer_hooks.reference.custom_task.loading import build_search_policy_and_environment  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}; a model of your own needs pip install 'rlvitals[search]'") from error
    return build_search_policy_and_environment(config, device, report=report)
