"""Likelihood drift: entropy rises and correct responses lose likelihood, for runs without the paired channel."""

import math
from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.detector_parts.coverage import Coverage
from monitor_server.detection.detector_parts.drift_controls import DriftControls
from monitor_server.detection.detector_parts.excess_loss import ENTROPY, LARGEST_WEIGHT, LIKELIHOOD, Excess
from monitor_server.detection.detector_parts.warm_up import WarmUp
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.streaming import DrawUp, Ema

__all__ = ["LikelihoodDrift"]

REWARD = "reward/mean"
PAIRED = "entropy/paired_delta"
LEAST_PAIRS, STALE_ROWS = 8, 5


class LikelihoodDrift(StreamDetector):
    """Warns when entropy has risen and the likelihood of correct responses has fallen, together, above the noise.

    D = √(draw-up of EMA₀.₁(H) · draw-up of EMA₀.₁(−l⁺)). A draw-up is the rise above the lowest value so far. W · D
    must pass 0.108 nat, 13.2 % of the run's entropy, and 3.24 standard errors of the averages. W is the weight of
    `Excess`, above 1 if the likelihood falls by more than entropy explains. The finding ends when W · D and D are both
    below 0.72 of that bound. From four fifths of the bound on it is information, which sets the phase and causes no
    notification. The likelihood of correct responses alone would not be enough: newly solved hard questions lower it in
    healthy runs. Rows of a warm-up are left out.

    Three cases are information of another kind. ``difficulty_shift``: the reward has fallen by 1.2 standard errors when
    D or W · D passes four fifths of the bound, as it does with harder questions, and this holds until D is back at
    zero; or the paired channel is observed, which is the better measurement and which `PairedDrift` reads.
    ``entropy_drift``: only entropy is observed and passes 1.11 times the bound; exploration and displacement then look
    alike. With likelihood alone there is no finding. docs/detection-results.md lists false alarms and leads.

    Args:
        least_rise: W · D that matters, in nats per token.
        relative_rise: W · D that matters, as a share of the entropy at its lowest.
        errors: W · D that matters, in standard errors of the average.

    Reference:
        arXiv 2512.04220, section 5.1 (phase II) and Figure 4.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> drift = [0.01 * max(0, row - 20) for row in range(50)]
    >>> series = {"entropy/mean": [0.4 + rise for rise in drift], "likelihood/correct": [-0.4 - rise for rise in drift]}
    >>> episodes(LikelihoodDrift(), series)
    [(36, 'likelihood_drift', 'info'), (39, 'likelihood_drift', 'warning')]
    """

    kind = "likelihood_drift"
    severity = Severity.WARNING
    reads = (ENTROPY, LIKELIHOOD)
    ALONE, FELL_ERRORS, DISPLAY, ENDS = 1.11, 1.2, 0.8, 0.72

    def __init__(self, *, least_rise: float = 0.108, relative_rise: float = 0.132, errors: float = 3.24) -> None:
        super().__init__()
        self._least_rise = least_rise
        self._relative_rise = relative_rise
        self._errors = errors
        self.warm_up = WarmUp()
        self.entropy = _Channel(turn=1)
        self.unlikelihood = _Channel(turn=2)
        self.excess = Excess(turn=5)
        self.controls = DriftControls()
        self.reward = Ema(0.1)
        self.reward_history = History(length=40, lag=0)
        self.reward_at_onset: float | None = None
        self.pairs = 0  # rows with the paired channel
        self.unpaired = 0  # rows since
        self.coverage = Coverage()
        self.suspected = False
        self.active = False
        self.excused = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        get = observation.finite.get
        entropy, likelihood, reward = get(ENTROPY), get(LIKELIHOOD), get(REWARD)
        if reward is not None:
            self.reward.update(reward)
            self.reward_history.append(reward)
        self.unpaired += 1
        is_paired = get(PAIRED) is not None
        self.coverage.update(is_paired)
        if is_paired:
            self.pairs, self.unpaired = self.pairs + 1, 0
        if self.warm_up.update(observation):
            return ()
        if likelihood is not None:
            self.unlikelihood.update(-likelihood, observation.step)
        if entropy is None:
            return ()
        self.entropy.update(entropy, observation.step)
        if self.entropy.value == 0.0:
            self.excess.mark()
            self.controls.mark()
        self.excess.update(observation)
        self.controls.update(observation)
        drift = self._joint_rise()
        if self._is_far_below(drift):
            self.active = self.suspected = False
            return ()
        threshold, weighed = self._bound(), self.excess.weight * drift
        self._update_alarm(drift, weighed, threshold)
        lingers = self.excused and max(weighed, drift) > self.ENDS * threshold
        if not (self.active or self.suspected or lingers):
            return ()
        return [self._build_finding(observation, weighed, threshold)]

    def _joint_rise(self) -> float:
        """Return the joint draw-up D, or the draw-up of entropy if only entropy is observed, in nats per token."""
        if not self.has_likelihood:
            return self.entropy.value
        return math.sqrt(max(0.0, self.entropy.value) * max(0.0, self.unlikelihood.value))

    def _is_far_below(self, drift: float) -> bool:
        """Return whether D ends every alarm for any W and any noise, as at nearly every step.

        W and the noise are costly. W is at most e^{3/4}, and the threshold is at least the bound without the noise.
        """
        if drift <= 0.0:
            self.reward_at_onset, self.excused = self.reward.value, False
            return True
        least = max(self._least_rise, self._relative_rise * abs(self.entropy.lowest or 0.0))
        return LARGEST_WEIGHT * drift < self.ENDS * least

    def _update_alarm(self, drift: float, weighed: float, threshold: float) -> None:
        ends, display, most = self.ENDS * threshold, self.DISPLAY * threshold, max(weighed, drift)
        if most > display and not self.active and self._reward_fell():
            self.excused, self.suspected = True, False
        self.active = (weighed > threshold and not self.excused) or (self.active and most > ends)
        self.suspected = (weighed > display and not self.excused) or (self.suspected and most > ends)

    @property
    def has_likelihood(self) -> bool:
        """Whether the likelihood of correct responses has been observed for long enough to count."""
        return self.unlikelihood.lowest is not None

    @property
    def has_pairs(self) -> bool:
        """Whether the paired channel is observed now and in most rows, and has been for long enough to count."""
        return self.pairs >= LEAST_PAIRS and self.unpaired <= STALE_ROWS and self.coverage.is_dense

    def _bound(self) -> float:
        """Return the bound for D, in nats per token."""
        bound = max(self._least_rise, self._relative_rise * abs(self.entropy.lowest or 0.0))
        if not self.has_likelihood:
            return self.ALONE * max(bound, self._errors * self.entropy.error)
        return max(bound, self._errors * max(self.entropy.error, self.unlikelihood.error))

    def _build_finding(self, observation: Observation, weighed: float, threshold: float) -> Finding:
        since = self.entropy.since
        what = f"Entropy has risen by {self.entropy.value:.3f} nat per token since step {since}"
        if self.has_likelihood:
            fall, fell = self.unlikelihood.value, self.unlikelihood.since
            what += f", and negative log-likelihood by {fall:.3f} since step {fell}"
        share = (1.0 if self.active else self.DISPLAY) * (1.0 if self.has_likelihood else self.ALONE)
        joint = "sqrt(drawup(EMA(H)) drawup(EMA(-l)))" if self.has_likelihood else "drawup(EMA(H))"
        kind, tail = self._reading()
        warns = self.active and kind == self.kind
        return self._finding(
            observation,
            f"{what}{tail}.",
            kind=kind,
            severity=self.severity if warns else Severity.INFO,
            signal=ENTROPY,
            baseline=self.entropy.lowest,
            window=observation.step - (since or 0),
            statistic=weighed,
            threshold=threshold if self.active else self.DISPLAY * threshold,
            entropy_rise=self.entropy.value,
            likelihood_fall=self.unlikelihood.value,
            excess=self.excess.errors,
            **self.controls.evidence(),
            reward_fell=self.excused,
            agreeing=[LIKELIHOOD] if self.unlikelihood.value > threshold else [],
            onset=[since, observation.step],
            arithmetic=f"W D > {'' if share == 1.0 else f'{share:.3g} '}max(0.108, 0.132 H, 3.24 SE), D = {joint}, "
            "W = exp(z / 4), z the rise of -l - H meanwhile in standard errors, at most 3",
        )

    def _reading(self) -> tuple[str, str]:
        """Return the kind of the finding, and the addition to its summary."""
        if not self.has_likelihood:
            return "entropy_drift", ""
        if self.has_pairs:
            return "difficulty_shift", "; the paired change of entropy decides whether the policy moved"
        if self.excused:
            return "difficulty_shift", "; the reward fell as well, so the questions may have become harder"
        return self.kind, ""

    def _reward_fell(self) -> bool:
        if self.reward.value is None or self.reward_at_onset is None:
            return False
        scale = self.reward_history.scale
        if scale is None:
            return False
        error = scale * _AVERAGED
        return self.reward_at_onset - self.reward.value > self.FELL_ERRORS * error

    def _rebaseline(self) -> None:
        self.entropy.restart()
        self.unlikelihood.restart()
        self.excess.restart()
        self.controls.restart()
        self.reward, self.reward_at_onset = Ema(0.1), None
        self.active = self.suspected = self.excused = False

    def _resume(self, step: int) -> None:
        if self.entropy.since is not None and step <= self.entropy.since:
            self._rebaseline()
        elif self.unlikelihood.since is not None and step <= self.unlikelihood.since:
            self.unlikelihood.restart()


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
