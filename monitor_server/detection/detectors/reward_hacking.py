"""Reward hacking: the reward rises by a shortcut, such as shorter answers, no search, repeated text."""

from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.departure import Departure, Size, second_largest

__all__ = ["RewardHacking"]

REWARD = "reward/mean"
# A shortcut takes tens of steps, so a sign counts for about as long as the window of its baseline.
HELD_ROWS = 30
SIGNS = {
    "length/mean": Size(factor=0.6, errors=4.0, rows=3),
    "tools/calls": Size(factor=0.6, errors=4.0, rows=3),
    "text/repetition": Size(factor=1.5, least=0.05, errors=4.0, rows=3),
}


class RewardHacking(StreamDetector):
    """Warns when two signs of a shortcut appear within 30 rows while the reward does not fall.

    The signs are length below 60 % of its baseline, tool calls below 60 %, and repetition up by half and 0.05. Each is
    harmless alone, because better policies are often shorter. Reward hacking does not lower the reward, so a fall of
    the reward excludes it.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> series = {"reward/mean": [0.5] * 17, "length/mean": [200.0, 210.0, 190.0] * 4 + [20.0] * 5,
    ...           "tools/calls": [1.5, 1.6, 1.4] * 4 + [0.1] * 5}
    >>> episodes(RewardHacking(), series)
    [(14, 'reward_hacking', 'warning')]
    """

    kind = "reward_hacking"
    severity = Severity.WARNING
    reads = (REWARD, *SIGNS)

    def __init__(self) -> None:
        super().__init__()
        self.signs = {name: Departure(size) for name, size in SIGNS.items()}
        self.left = dict.fromkeys(SIGNS, 0)
        self.from_levels: dict[str, float | None] = {}  # baselines from which the signs departed
        self.reward = Departure(Size(factor=0.8, least=0.02, errors=2.0, rows=3, rarity=1.0))
        self.since: int | None = None

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        get, left = observation.finite.get, self.left
        reward = get(REWARD)
        fell = reward is not None and self.reward.update(reward)
        for name, sign in self.signs.items():
            value = get(name)
            shows = value is not None and sign.update(value)
            if fell:
                left[name] = 0
            elif shows:
                if not left[name]:
                    self.from_levels[name] = sign.baseline
                left[name] = HELD_ROWS
            elif left[name]:
                left[name] -= 1
        if reward is None or list(left.values()).count(0) > len(left) - 2:  # a single sign may be skill
            self.since = None
            return ()
        seen = [name for name, rows in left.items() if rows]
        self.since = observation.step if self.since is None else self.since
        return [self._build_finding(observation, reward, seen)]

    def _build_finding(self, observation: Observation, reward: float, seen: list[str]) -> Finding:
        changes = ", ".join(self._describe_change(name) for name in seen)
        return self._finding(
            observation,
            f"The reward holds at {reward:.3g} while {changes}: look for a shortcut.",
            signal=seen[0],
            baseline=self._find_baseline(seen[0]),
            window=HELD_ROWS,
            statistic=second_largest(self.signs[name].strength for name in seen),
            threshold=1.0,
            scores={name: self.signs[name].score for name in seen},
            agreeing=seen,
            onset=[self.since, self.since],
            arithmetic="two of shorter, fewer tool calls, more repetition within 30 rows, and no fall of the reward",
        )

    def _describe_change(self, name: str) -> str:
        """Describe a sign's change in words; a rewind may have taken back its level."""
        baseline, level = self._find_baseline(name), self.signs[name].level
        return f"{name} changes" if baseline is None or level is None else f"{name} {baseline:.3g} to {level:.3g}"

    def _find_baseline(self, name: str) -> float | None:
        """Return the baseline from which a sign departed; older versions did not save it."""
        return self.from_levels.get(name, self.signs[name].baseline)

    def _resume(self, step: int) -> None:
        if self._replaces_rows(step) and (self.since is None or step <= self.since):
            self.since, self.left = None, dict.fromkeys(SIGNS, 0)

    def _rebaseline(self) -> None:
        for departure in (*self.signs.values(), self.reward):
            departure.restart()
        self.since, self.left = None, dict.fromkeys(SIGNS, 0)
