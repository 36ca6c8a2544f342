"""W2: slow drift in entropy and in the likelihood of correct responses, for runs without the paired channel."""

import math
from collections.abc import Sequence

from monitor_server.detection.base import StreamDetector, finite
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics import DrawUp, Ema, History

__all__ = ["LikelihoodDrift"]

ENTROPY = "entropy/mean"
LIKELIHOOD = "likelihood/correct"
REWARD = "reward/mean"
PAIRED = "entropy/paired_delta"


class LikelihoodDrift(StreamDetector):
    """Warns when entropy has risen and the likelihood of correct responses has fallen, together, above the noise.

    D = min(draw-up of EMA₀.₁(H), draw-up of EMA₀.₁(−l⁺)), a draw-up being the rise above the lowest value so far.
    It must pass 0.06 nat, 10 % of the run's entropy, and five standard errors of the averages. Likelihood of correct
    responses alone would not do: newly solved hard questions lower it in healthy runs. With entropy alone the bound is
    twice as high and the finding is information, for exploration and displacement then look alike; with likelihood
    alone there is none.

    If the reward fell by more than one standard error since the onset, the same picture is what harder questions would
    draw, so the finding is information and says so. So it does where the paired channel is observed and shows less than
    half of the rise: entropy that rises on other contexts only is another choice of contexts.

    At defaults, on authored benign runs of 300 steps: warns in about 7 % of them; median lead 31 steps.

    Args:
        least_rise: Draw-up that matters, in nats per token.
        relative_rise: Draw-up that matters, as a share of the entropy at its lowest.
        errors: Draw-up that matters, in standard errors of the average.

    Reference:
        arXiv 2512.04220, section 5.1 (phase II) and Figure 4.
    """

    kind = "likelihood_drift"
    severity = Severity.WARNING
    reads = (ENTROPY, LIKELIHOOD)

    def __init__(self, *, least_rise: float = 0.06, relative_rise: float = 0.10, errors: float = 5.0) -> None:
        super().__init__()
        self.least_rise = least_rise
        self.relative_rise = relative_rise
        self.errors = errors
        self.entropy = _Channel(turn=1)
        self.unlikelihood = _Channel(turn=2)
        self.reward = Ema(0.1)
        self.reward_history = History(length=40, lag=0)
        self.reward_at_onset: float | None = None
        self.paired_rise: float | None = None  # since the draw-up began; None where the channel is not observed
        self.active = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        entropy, likelihood = finite(observation.signals, ENTROPY), finite(observation.signals, LIKELIHOOD)
        reward = finite(observation.signals, REWARD)
        if reward is not None:
            self.reward.update(reward)
            self.reward_history.append(reward)
        if likelihood is not None:
            self.unlikelihood.update(-likelihood, observation.step)
        if entropy is None:
            return ()
        began = self.entropy.since
        self.entropy.update(entropy, observation.step)
        self._follow_pairs(finite(observation.signals, PAIRED), restart=self.entropy.since != began)
        drift, threshold = self.measure()
        if drift <= 0.0:
            self.reward_at_onset = self.reward.value
        self.active = drift > threshold or (self.active and drift > threshold / 2)
        return [self._drift(observation, drift, threshold)] if self.active else ()

    @property
    def has_likelihood(self) -> bool:
        """Whether the likelihood of correct responses has been observed for long enough to count."""
        return self.unlikelihood.lowest is not None

    def measure(self) -> tuple[float, float]:
        """Give the joint draw-up and its bound, both in nats per token."""
        lowest = self.entropy.lowest or 0.0
        bound = max(self.least_rise, self.relative_rise * abs(lowest))
        if not self.has_likelihood:
            return self.entropy.value, 2 * max(bound, self.errors * self.entropy.error)
        noise = self.errors * max(self.entropy.error, self.unlikelihood.error)
        return min(self.entropy.value, self.unlikelihood.value), max(bound, noise)

    def _follow_pairs(self, delta: float | None, *, restart: bool) -> None:
        if delta is not None:
            self.paired_rise = delta if restart or self.paired_rise is None else self.paired_rise + delta
        elif restart and self.paired_rise is not None:
            self.paired_rise = 0.0

    def _drift(self, observation: Observation, drift: float, threshold: float) -> Finding:
        fell = self._reward_fell()
        elsewhere = self.paired_rise is not None and self.paired_rise < self.entropy.value / 2
        since = self.entropy.since
        what = "Entropy and -likelihood have risen" if self.has_likelihood else "Entropy has risen"
        tail = "; the reward fell as well, so the questions may have become harder" if fell else ""
        tail = "; on the same contexts it has not, so it is the questions that changed" if elsewhere else tail
        return self._finding(
            observation,
            f"{what} by {drift:.3f} nat per token since step {since}{tail}.",
            severity=Severity.INFO if fell or elsewhere or not self.has_likelihood else self.severity,
            signal=ENTROPY,
            baseline=self.entropy.lowest,
            window=observation.step - (since or 0),
            statistic=drift,
            threshold=threshold,
            entropy_rise=self.entropy.value,
            likelihood_fall=self.unlikelihood.value,
            reward_fell=fell,
            paired_rise=self.paired_rise,
            agreeing=[LIKELIHOOD] if self.unlikelihood.value > threshold else [],
            onset=[since, observation.step],
            arithmetic="min(drawup(EMA(H)), drawup(EMA(-l))) > max(0.06, 0.1 H, 5 SE)",
        )

    def _reward_fell(self) -> bool:
        if self.reward.value is None or self.reward_at_onset is None or self.reward_history.scale is None:
            return False
        return self.reward_at_onset - self.reward.value > self.reward_history.scale * _AVERAGED

    def _rebaseline(self) -> None:
        self.entropy.restart()
        self.unlikelihood.restart()
        self.reward, self.reward_at_onset, self.active = Ema(0.1), None, False

    def _resume(self, step: int) -> None:
        if self.entropy.since is not None and step <= self.entropy.since:
            self._rebaseline()


# Standard deviation of an EMA of white noise: σ √(α / (2 − α)), at α = 0.1.
_AVERAGED = math.sqrt(0.1 / 1.9)


class _Channel(DrawUp):
    """A draw-up with the standard error of its average."""

    def __init__(self, *, turn: int) -> None:
        super().__init__(alpha=0.1, settle=8)
        self.history = History(length=60, lag=0, floor=1e-4, turn=turn)

    def update(self, x: float, step: int) -> float:
        self.history.append(x)
        return super().update(x, step)

    @property
    def error(self) -> float:
        return (self.history.scale or 0.0) * _AVERAGED

    def restart(self) -> None:
        self.average, self.lowest, self.since = Ema(0.1), None, None
