"""Verdict gap: correct responses are no longer likelier than incorrect ones, so that the grader is to be doubted."""

from monitor_server.detection.base_classes.readings import finite
from monitor_server.detection.collapse_measures.lasting_loss import LastingLoss
from monitor_server.detection.protocol import Observation

__all__ = ["VerdictGap"]

CORRECT, INCORRECT = "likelihood/correct", "likelihood/incorrect"


class VerdictGap(LastingLoss):
    """Warns when the gap of log-likelihood between correct and incorrect responses loses three fifths at once.

    A policy that knows its task gives what is correct a higher probability than what is not. A grader that errs at
    random takes that gap away from one row to the next, and one that is inverted turns it round, while the reward may
    stay as it was. A policy changes it slowly. Gaps under half a nat per token are noise and are not judged. The rule
    is that of `LastingLoss`.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> series = {"likelihood/correct": [-0.2, -0.3, -0.2, -0.1] * 10 + [-0.8] * 5, "likelihood/incorrect": [-1.1] * 45}
    >>> episodes(VerdictGap(), series)
    [(42, 'reward_signal_dead', 'warning'), (43, 'reward_signal_dead', 'critical')]
    """

    kind = "reward_signal_dead"
    reads = (CORRECT, INCORRECT)
    signal = CORRECT
    share = 0.4
    least = 0.5  # nat per token

    def _read(self, observation: Observation) -> float | None:
        correct, incorrect = (finite(observation.signals, name) for name in self.reads)
        return None if correct is None or incorrect is None else correct - incorrect

    def _describe(self, value: float) -> str:
        return (
            f"Correct responses were likelier than incorrect ones by {self.from_level:.3g} nat per token, and are by "
            f"{value:.3g} since step {self.opened}: look at the grader."
        )
