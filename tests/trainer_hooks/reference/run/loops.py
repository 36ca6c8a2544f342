"""Trainers and monitors of short runs, and what they have sent."""

import math

import torch

from tests.live import PATIENCE_SECONDS
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.run.trainer import Trainer
from trainer_hooks.wire import decode_record


def trainer_of(config):
    return Trainer(config, warm_start(config))


def weights(trainer):
    return torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])


def first_attempt(collector):
    return collector.batches[0].attempt if collector.batches else None


def newest_of(batch):
    """Return the newest step of a batch; None where it has no record."""
    return max((decode_record(raw).step for raw in batch.records), default=None)


class Flushing:
    """The monitor, waiting for the answer to each step, so that a test has the verdict before the next step."""

    def __init__(self, monitor):
        self.monitor = monitor
        self.logged = 0
        self.stop_after = None
        self.flush_until = math.inf

    def log_step(self, *arguments, **options):
        """Log and wait; or be killed at the first step after so many."""
        self.logged += 1
        if self.stop_after is not None and self.logged > self.stop_after:
            raise KeyboardInterrupt
        self.monitor.log_step(*arguments, **options)
        assert self.logged > self.flush_until or self.monitor.flush(PATIENCE_SECONDS)

    @property
    def healthy_step(self):
        """Return the newest healthy step."""
        return self.monitor.healthy_step

    @property
    def phase(self):
        """Return the phase."""
        return self.monitor.phase

    @property
    def alerts(self):
        """Return the alerts that fire."""
        return self.monitor.alerts
