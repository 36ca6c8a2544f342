"""Fork and prove: finds by short trainings which treatment helps a run. Depends on no framework.

At a warning a trainer saves its state and trains a few forks of itself from its last healthy checkpoint: an unchanged
fork, which is the control, and one fork for each treatment. All forks have the same questions and random draws, and
train for the same number of steps. Each fork is then measured on the same held-out contexts (`ForkMeasurement`),
`choose` compares it with the control by paired differences, and the trainer goes on with the winner. The collector
shows `Choice.results`.

A fork that fails or has numbers that are not finite has diverged. It is reported, and cannot win. A trainer whose
control wins goes on from its own state, as if it had never forked.
"""

from trainer_hooks.forks.choice import Choice, ForkScore, choose
from trainer_hooks.forks.measurement import Estimate, ForkMeasurement
from trainer_hooks.forks.treatments import CONTROL, TREATMENTS

__all__ = ["CONTROL", "TREATMENTS", "Choice", "Estimate", "ForkMeasurement", "ForkScore", "choose"]
