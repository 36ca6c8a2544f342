"""Watches verl: ``trainer.logger=["console","rlvitals"]``, nothing else changes.

verl 0.9 and newer loads this package by its entry point ``verl.plugins`` in every process; 0.6 to 0.8 load it by
``VERL_USE_EXTERNAL_MODULES=trainer_hooks.callbacks.verl``. Importing it registers wrappers that are installed once
verl's own modules are imported.
"""

from trainer_hooks.callbacks.verl.logger import NAME, VitalsLogger
from trainer_hooks.callbacks.verl.wrappers import register

__all__ = ["NAME", "VitalsLogger"]

register()
