"""Fork and prove: which treatment would help a run, found by short trainings and not by opinion. Knows no framework.

At a warning a trainer saves its state and trains a few forks of itself from its last healthy checkpoint: one unchanged,
which is the control, and one for each treatment, all with the same questions and draws and for as many steps. Each is
then measured on the same held-out contexts (`ForkMeasurement`), `choose` compares it with the control by paired
differences, and the trainer goes on with the winner. `Choice.results` is what the collector shows.

A fork that fails or has numbers that are not finite is data: it has diverged, and cannot win. A trainer whose control
wins goes on from its own state, as if it had never forked.
"""

from trainer_hooks.forks.choice import Choice, ForkScore, choose
from trainer_hooks.forks.measurement import Estimate, ForkMeasurement
from trainer_hooks.forks.treatments import CONTROL, TREATMENTS

__all__ = ["CONTROL", "TREATMENTS", "Choice", "Estimate", "ForkMeasurement", "ForkScore", "choose"]
