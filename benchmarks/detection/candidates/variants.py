"""Variants of the detectors whose bounds are multiples of the shipped ones, for measuring what the choice is worth."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.detector_parts import mechanisms
from monitor_server.detection.detectors import run_collapsed
from monitor_server.detection.detectors.reward_loss import RewardLoss
from monitor_server.detection.detectors.run_collapsed import RunCollapsed
from monitor_server.detection.registry import DETECTORS
from monitor_server.detection.statistics.departure import Size

__all__ = ["OPTIONAL", "RARITIES", "SIZES", "Variant", "scaled"]

# Multiples of the shipped bounds. A rarity multiplied by 0 means: without these rules by ranks.
RARITIES, SIZES = (1.0, 10.0, 0.1, 0.0), (1.0, 1.6)
OPTIONAL = ("", "joint_departure", "reward_fall", "clip_surge", "entropy_explosion", "gradient_explosion")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Rarity and sizes as multiples of the shipped values, and the kind of finding that is left out, if any."""

    rarity: float
    size: float
    without: str

    def __str__(self) -> str:
        """Describe it in words."""
        ranks = f"rarity x {self.rarity:g}" if self.rarity else "no ranks"
        return f"{ranks}, sizes x {self.size:g}" + (f", no {self.without}" if self.without else "")


@contextmanager
def scaled(rarity: float, size: float) -> Iterator[None]:
    """Vary bounds inside the context: of departures of single signals and of mechanisms, and of two rules by ranks.

    The rules by ranks are `RewardLoss` and `RunCollapsed`. The other ones (`AccuracyLoss`, `VerdictGap`,
    `SuddenSilence`) keep their bounds, and so do the departures that a detector compares beside others.
    """
    shifts = [detector for detector in DETECTORS.values() if issubclass(detector, ShiftDetector)]
    shipped = {detector: detector.size for detector in shifts}
    channels, fast = dict(mechanisms.CHANNELS), run_collapsed.FAST
    rules: tuple[type[RewardLoss | RunCollapsed], ...] = (RewardLoss, RunCollapsed)
    ranked = {rule: rule.RARITY for rule in rules}
    try:
        for detector in shifts:
            detector.size = _varied(shipped[detector], rarity, size)
        for name, (mechanism, signal, bounds) in channels.items():
            mechanisms.CHANNELS[name] = (mechanism, signal, _varied(bounds, rarity, size))
        run_collapsed.FAST = _varied(fast, rarity, size)
        for rule, bound in ranked.items():
            rule.RARITY = bound * rarity
        yield
    finally:
        for detector in shifts:
            detector.size = shipped[detector]
        mechanisms.CHANNELS.update(channels)
        run_collapsed.FAST = fast
        for rule, bound in ranked.items():
            rule.RARITY = bound


def _varied(bounds: Size, rarity: float, size: float) -> Size:
    """Return the bounds with their smallest change, absolute and as a factor, and their rarity multiplied."""
    factor = bounds.factor**size
    return replace(bounds, least=bounds.least * size, factor=factor, rarity=bounds.rarity * rarity if rarity else 1.0)
