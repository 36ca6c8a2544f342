"""Follows a prime-rl run by the files that it exports: ``python -m trainer_hooks.callbacks.prime_rl RUN_FOLDER``."""

from trainer_hooks.callbacks.prime_rl.command import main
from trainer_hooks.callbacks.prime_rl.follower import Follower

__all__ = ["Follower", "main"]
