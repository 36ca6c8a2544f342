"""Stale responses: the trainer repeats the same responses more often than ever before in the run."""

from collections.abc import Mapping, Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.passes import Pass, is_further_pass, read_pass
from monitor_server.detection.base_classes.readings import list_missing
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["StaleResponses"]

REWARD, SPREAD, SILENT, LOSS = "reward/mean", "reward/std", "reward/zero_std_frac", "loss/policy"
DISTANCES = ("mismatch/kl", "kl/old")


class StaleResponses(StreamDetector):
    """Warns when the passes over the same responses exceed twice the largest number that two batches had before.

    A pass is a row with the reward and length of the row before, and an entropy that differs by at most 2 %, or a row
    with a loss and no reward, as TRL logs it. Four batches must have ended, and the pass must be at least the fourth.
    The policy then moves away from the responses from which it learns. The cause may be a sampler or a queue that has
    stopped, or an early-stopping rule that no longer stops. It is critical if the divergence from the sampler, or from
    the policy that sampled, is above 0.03 nat per token and ten times its largest value before, in the newest row.

    A number of passes that only one batch had is not used for comparison, because that batch may have been the first
    stale one: a sampler that stops in the middle of a batch adds a few passes to that batch, and many to the next.

    Rows whose rewards do not differ repeat by chance and count as new. The finding ends with new responses.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> reward, length = [0.5, 0.6, 0.4, 0.7, 0.5, 0.6] + [0.6] * 5, [90.0, 80.0, 85.0, 95.0, 92.0, 81.0] + [81.0] * 5
    >>> divergence = [0.001] * 7 + [0.01, 0.02, 0.04, 0.08]
    >>> series = {"reward/mean": reward, "reward/std": [0.5] * 11, "length/mean": length, "kl/old": divergence}
    >>> episodes(StaleResponses(), series)
    [(8, 'off_policy_blowup', 'warning'), (9, 'off_policy_blowup', 'critical')]
    """

    kind = "off_policy_blowup"
    severity = Severity.WARNING
    reads = (REWARD, "length/mean", "entropy/mean", SPREAD, SILENT, LOSS, *DISTANCES)
    skips_rows_without = True
    BATCHES, PASSES, FACTOR, FAR, FAR_FACTOR = 4, 4, 2, 0.03, 10.0

    def __init__(self) -> None:
        super().__init__()
        self.before: Pass = []
        self.passes = 0  # over the newest responses
        self.most = 0  # over two earlier batches, at least
        self.once = 0  # over the one earlier batch that had the most
        self.batches = 0  # before the newest batch
        self.began: int | None = None
        self.farthest = dict.fromkeys(DISTANCES, 0.0)  # while no responses were stale

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        get = observation.finite.get
        if not self._count(observation):
            return ()
        farthest, passes = self.farthest, self.passes
        if self.batches < self.BATCHES or passes < self.PASSES or passes <= self.FACTOR * self.most:
            if passes == 1 or passes <= self.most:
                for name in DISTANCES:
                    value = get(name)
                    if value is not None and farthest[name] < value:
                        farthest[name] = value
            return ()
        distances = {name: value for name in DISTANCES if (value := get(name)) is not None}
        far = [name for name, value in distances.items() if value > max(self.FAR, self.FAR_FACTOR * farthest[name])]
        return [self._build_finding(observation, far)]

    def _count(self, observation: Observation) -> bool:
        """Count the passes and return whether the row belongs to any responses."""
        signals = observation.signals
        if REWARD not in signals:
            is_pass = self.passes > 0 and LOSS in signals
            self.passes += is_pass
            return is_pass
        now = read_pass(observation.finite)
        if is_further_pass(now, self.before) and _differ(observation.finite):
            self.passes += 1
        else:
            if self.passes:
                self._end_batch()
            self.passes, self.began = 1, observation.step
        self.before = now
        return True

    def _end_batch(self) -> None:
        """Note the passes of a batch; a number that only one batch had is not used, because that batch may be stale."""
        self.batches += 1
        if self.passes > self.once:
            self.most, self.once = max(self.most, self.once), self.passes
        else:
            self.most = max(self.most, self.passes)

    def _build_finding(self, observation: Observation, far: list[str]) -> Finding:
        away = f", and the policy is far from what sampled them ({', '.join(far)})" if far else ""
        return self._finding(
            observation,
            f"The same responses are trained on for the {self.passes}th time since step {self.began}; "
            f"at most one earlier batch had more than {self.most} passes{away}.",
            severity=Severity.CRITICAL if far else self.severity,
            signal=REWARD,
            baseline=float(self.most),
            window=self.batches,
            statistic=float(self.passes),
            threshold=float(max(self.PASSES, self.FACTOR * self.most + 1)),
            agreeing=far,
            missing=list_missing(observation.finite, DISTANCES),
            onset=[self.began, self.began],
            arithmetic="passes >= 4 and > 2 times the most that two batches before had; critical: a divergence > 0.03 "
            "nat and > 10 times its largest before",
        )

    def _resume(self, step: int) -> None:
        self.before, self.passes, self.began = [], 0, None  # a new process samples again
        if self._replaces_rows(step):
            self.most, self.once, self.batches, self.farthest = 0, 0, 0, dict.fromkeys(DISTANCES, 0.0)


def _differ(finite: Mapping[str, float]) -> bool:
    """Return whether the rewards of a row are known to differ."""
    spread, silent = finite.get(SPREAD), finite.get(SILENT)
    return (spread is not None or silent is not None) and spread != 0.0 and silent != 1.0
