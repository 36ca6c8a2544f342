"""Verdict gap: correct responses are no longer likelier than incorrect ones, so the grader is probably wrong."""

from monitor_server.detection.base_classes.lasting_loss import LastingLoss
from monitor_server.detection.protocol import Observation
from monitor_server.detection.statistics.rare_loss import WINDOW
from monitor_server.detection.statistics.rarity import MOST_ROWS
from monitor_server.detection.statistics.robust import MAD_TO_SIGMA, median

__all__ = ["VerdictGap"]

CORRECT, INCORRECT = "likelihood/correct", "likelihood/incorrect"


class VerdictGap(LastingLoss):
    """Warns when the gap of log-likelihood between correct and incorrect responses loses three fifths at once.

    A policy that has learned its task gives correct responses a higher probability than incorrect ones. A grader with
    random errors removes that gap from one row to the next, and an inverted grader reverses it, while the reward may
    not change. A policy changes the gap slowly. Gaps under half a nat per token are noise and are not judged. The rule
    is that of `LastingLoss`.

    Ranks alone need as many rows as their number allows: with six rows before, five in a row. If the loss is far beyond
    the noise, fewer rows are enough. Let z = (b − g) / σ be the shortfall of each of the newest m = 2 … 6 gaps in
    deviations, with σ = max(0.08, 1.4826 · MAD) · (1 + 4 / n) of the n ≥ 6 gaps before. It is critical if each z is
    above 3 and their sum is above 10.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> series = {"likelihood/correct": [-0.2, -0.3, -0.2, -0.1] * 10 + [-0.8] * 5, "likelihood/incorrect": [-1.1] * 45}
    >>> episodes(VerdictGap(), series)
    [(41, 'reward_signal_dead', 'critical')]
    """

    kind = "reward_signal_dead"
    reads = (CORRECT, INCORRECT)
    signal = CORRECT
    share = 0.4
    least = 0.5  # nat per token
    NOISE, ERRORS, MOST_ERRORS, LEAST_ROWS = 0.08, 3.0, 10.0, 6

    def _read(self, observation: Observation) -> float | None:
        correct, incorrect = observation.finite.get(CORRECT), observation.finite.get(INCORRECT)
        return None if correct is None or incorrect is None else correct - incorrect

    def _measure_errors(self, value: float) -> tuple[float, float]:
        if value >= self.share * self.loss.largest or self.loss.largest < self.least:  # no baseline is larger
            return 0.0, 0.0
        values, largest = list(self.loss.rewards), (0.0, 0.0)
        for rows in range(2, MOST_ROWS + 1):
            before, newest = values[:-rows][-WINDOW:], values[-rows:]
            if len(before) < self.LEAST_ROWS:
                break
            baseline = median(before)
            if baseline < self.least or max(newest) >= self.share * baseline:
                break
            spread = MAD_TO_SIGMA * median([abs(gap - baseline) for gap in before])
            deviation = max(self.NOISE, spread) * (1.0 + 4.0 / len(before))
            errors = [(baseline - gap) / deviation for gap in newest]
            if min(errors) > self.ERRORS:
                largest = max(largest, (sum(errors), baseline))
        return largest

    def _describe(self, value: float) -> str:
        return (
            f"Correct responses were likelier than incorrect ones by {self.from_level:.3g} nat per token, and are by "
            f"{value:.3g} since step {self.opened}: look at the grader."
        )
