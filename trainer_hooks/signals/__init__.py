"""Rollouts in, signals out: names and definitions in docs/signals.md."""

from trainer_hooks.rollouts import Rollouts
from trainer_hooks.wire import Summary

__all__ = ["summarise"]


def summarise(rollouts: Rollouts) -> dict[str, Summary]:
    """Give every signal that these rollouts allow, as summaries that merge over ranks."""
    _ = rollouts
    return {}
