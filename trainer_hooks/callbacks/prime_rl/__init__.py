"""Follows a prime-rl run by the files that it exports: ``python -m trainer_hooks.callbacks.prime_rl RUN_FOLDER``."""

from trainer_hooks.callbacks.prime_rl.follower import Follower, main

__all__ = ["Follower", "main"]
