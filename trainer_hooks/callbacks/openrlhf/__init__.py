"""Watches OpenRLHF: load this package in every Ray process (`trainer_hooks.callbacks.bootstrap`).

Importing it registers wrappers that are installed once OpenRLHF's own modules are imported. Metrics and rollout tokens
are read in the driver, sums over the tokens of the loss in the workers.
"""

from trainer_hooks.callbacks.openrlhf.logger import VitalsLogger
from trainer_hooks.callbacks.openrlhf.wrappers import register

__all__ = ["VitalsLogger"]

register()
