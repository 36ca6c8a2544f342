"""A tiny TRL training with LLDS whose steps are kept."""

import tiny_trl

import trainer_hooks
from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.delivery import DropCounter
from trainer_hooks.losses import llds_loss
from trainer_hooks.losses.trl import LLDSConfig, LLDSGRPOTrainer


class Recording(trainer_hooks.Monitor):
    """A monitor that is never started and keeps every step it is given."""

    def __init__(self):
        self.steps = []
        self.drops = DropCounter()

    def begin_acting(self):
        """Return no policy."""

    def log_step(self, step, scalars=None, rollouts=None, grad_norm=None, **_):  # noqa: ARG002 - Monitor's signature
        """Keep a step."""
        self.steps.append((scalars, rollouts))


def train(tmp_path, **options):
    """Train two passes with LLDS; return the trainer and the recorded steps."""
    recording = Recording()
    options = {"kind": LLDSGRPOTrainer, "config_of": LLDSConfig, "num_iterations": 2, "max_steps": 2} | options
    trainer = tiny_trl.trainer(tmp_path, [VitalsCallback(recording)], **options)
    trainer.train()
    return trainer, recording.steps


def whole_penalty(tokens, **options):
    """Return `llds_loss` of all responses of a step at once."""
    arrays = tokens["logprobs"], tokens["old_logprobs"], tokens["mask"].bool(), tokens["advantages"]
    return llds_loss(*arrays, **{"gate": "action"} | options)
