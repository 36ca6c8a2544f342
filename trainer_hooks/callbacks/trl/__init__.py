"""Watches TRL's GRPOTrainer and RLOOTrainer: one line in the training script, nothing else changes.

trainer = GRPOTrainer(..., callbacks=[VitalsCallback()])
"""

from trainer_hooks.callbacks.trl.callback import VitalsCallback

__all__ = ["VitalsCallback"]
