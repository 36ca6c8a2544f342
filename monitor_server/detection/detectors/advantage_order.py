"""Order of advantages: the advantages of the update do not follow the rewards."""

from collections.abc import Mapping, Sequence
from typing import Any

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["AdvantageOrder"]

SIGNAL = "advantage/reward_corr"
ROWS = 3
# Advantages that are rewards minus a baseline, divided by a scale, have a correlation of 1 up to rounding. Those of a
# critic begin near it: 0.995 in the first steps of the reference trainer with PPO.
LINEAR = 0.9999
ROWS_LINEAR = 4
LOST = 0.8
OPPOSED = 0.0


class AdvantageOrder(StreamDetector):
    """Warns when the advantages of a group do not follow its rewards: a wrong sign, order or assignment.

    In the first rows of a run, a negative correlation is a mistake of the set-up with any algorithm: the update makes
    the better responses less likely. Later it is a mistake if the correlation was 1 before and is lost. It is 1 by
    construction if an advantage is a reward minus the group's mean. Advantages of a critic, or with terms other than
    the reward, never were at 1 and are not judged. The finding ends with the first row in which the rule does not hold.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(AdvantageOrder(), {"advantage/reward_corr": [1.0] * 6 + [0.1, -0.2, 0.05]})
    [(8, 'advantage_order', 'warning')]
    """

    kind = "advantage_order"
    severity = Severity.WARNING
    reads = (SIGNAL,)
    skips_rows_without = True

    def __init__(self) -> None:
        super().__init__()
        self.right: int | None = None  # the first step at which the rule did not hold
        self.linear_steps: list[int] = []  # of the successive rows at 1, up to 4; from then on every row is judged
        self.wrong_steps: list[int] = []  # of the first successive rows in which the rule holds, up to 3
        self.wrong_rows = 0  # the number of all these rows

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        value = observation.finite.get(SIGNAL)
        if value is None:
            return ()
        was_linear = len(self.linear_steps) == ROWS_LINEAR
        if not was_linear:
            self.linear_steps = [*self.linear_steps, observation.step] if value >= LINEAR else []
        is_checked = was_linear or self.right is None  # all rows so far were wrong
        if not is_checked or value >= (LOST if was_linear else OPPOSED):
            self.right = observation.step if self.right is None else self.right
            self.wrong_steps, self.wrong_rows = [], 0
            return ()
        self.wrong_rows += 1
        if len(self.wrong_steps) < ROWS:
            self.wrong_steps.append(observation.step)
        return [self._build_finding(observation, value, was_linear)] if len(self.wrong_steps) == ROWS else ()

    def _build_finding(self, observation: Observation, value: float, was_linear: bool) -> Finding:  # noqa: FBT001
        bound, since = LOST if was_linear else OPPOSED, self.wrong_steps[0]
        return self._finding(
            observation,
            f"Advantages do not follow the rewards of their group: a correlation of {value:.3g}, in all "
            f"{self.wrong_rows} rows since step {since}.",
            signal=SIGNAL,
            baseline=1.0 if was_linear else None,
            window=self.wrong_rows,
            statistic=float(self.wrong_rows),
            threshold=float(ROWS),
            value=value,
            bound=bound,
            onset=[since, since],
            arithmetic=f"correlation < {bound:g} in {ROWS} rows in succession, "
            + (f"after {ROWS_LINEAR} at {LINEAR:g} or above" if was_linear else "the first of the run"),
        )

    def take_back(self, rows: int, left: int) -> None:
        """Count the newest rows no longer; those of them without the signal were not counted."""
        super().take_back(rows, left)
        self.wrong_rows -= rows

    def _resume(self, step: int) -> None:
        self.linear_steps = [each for each in self.linear_steps if each < step]
        self.wrong_steps = [each for each in self.wrong_steps if each < step]
        self.wrong_rows = max(self.wrong_rows, len(self.wrong_steps))
        if self.right is not None and step <= self.right:
            self.right = None

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; older versions saved numbers of rows without their steps, and the first wrong step."""
        super().load(state)
        if "linear" not in state:
            return
        self.linear_steps = [-1] * min(state["linear"], ROWS_LINEAR)
        self.wrong_steps, self.wrong_rows = [state["since"]] * min(state["wrong"], ROWS), state["wrong"]
        if (rows := state.get("rows")) is not None:
            self.right = -1 if rows > self.wrong_rows else None
