"""The mechanisms of a run that can fail, as shown by a trainer's own metrics, each by one or more signals.

Two signals of one mechanism count once: truncation and length move together by construction. This module defines the
size of a change that matters for each signal. It reports no findings.
"""

from collections.abc import Collection

from monitor_server.detection.detector_parts.coverage import Coverage
from monitor_server.detection.protocol import Observation
from monitor_server.detection.statistics.departure import Departure, Size
from monitor_server.detection.statistics.state import Stateful

__all__ = ["Mechanisms", "SharedMechanisms"]

STALE_ROWS = 5
HELD_ROWS = 2  # a departure counts for this many rows, because mechanisms rarely move on the same row

RARITY = 0.02  # of one channel: two agreeing mechanisms together are as rare as a lone departure must be

# Mechanism, signal, size. Sizes are physical: a tenth of a nat, a fifth of the responses, one token in a thousand.
CHANNELS: dict[str, tuple[str, str, Size]] = {
    "entropy rise": ("entropy", "entropy/mean", Size(factor=1.5, least=0.1, errors=3.0, rarity=RARITY)),
    "entropy fall": ("entropy", "entropy/mean", Size(factor=0.3, least=0.1, rarity=RARITY)),
    "truncation": ("length", "length/truncated_frac", Size(least=0.2, noise=0.02, rarity=RARITY)),
    "length rise": ("length", "length/mean", Size(factor=1.5, rarity=RARITY)),
    "length fall": ("length", "length/mean", Size(factor=0.5, rarity=RARITY)),
    "reward fall": ("reward", "reward/mean", Size(factor=0.7, least=0.02, errors=3.0, rarity=RARITY)),
    "clip share": ("off-policy", "ratio/clip_frac", Size(factor=4.0, least=0.001, rarity=RARITY)),
    "sampler gap": ("off-policy", "mismatch/logprob_abs", Size(factor=2.0, rows=1, rarity=RARITY)),
    "policy step": ("off-policy", "kl/old", Size(factor=3.0, least=0.01, rarity=RARITY)),
    "reference": ("reference", "kl/ref", Size(factor=3.0, least=0.1, rarity=RARITY)),
}
PAIRED, ENTROPY_CHANNELS = "entropy/paired_delta", ("entropy rise", "entropy fall")


class Mechanisms(Stateful):
    """Finds the mechanisms that departed from their baselines within the last two rows.

    If the paired channel is observed, a change of entropy counts only if at least half of it also occurs on the same
    contexts. A change that occurs only on other prompts is a change of prompts.

    Args:
        only: The mechanisms to follow; None follows all.
    """

    def __init__(self, only: Collection[str] | None = None) -> None:
        followed = [name for name, (mechanism, _, _) in CHANNELS.items() if only is None or mechanism in only]
        self.policy = _PolicyEntropy()
        self.channels = {name: Departure(CHANNELS[name][2]) for name in followed}
        self.left = dict.fromkeys(followed, 0)
        self._departed: dict[str, list[str]] = {}
        self._followed = [
            (name, *CHANNELS[name][:2], self.channels[name], self.channels[name].update) for name in followed
        ]

    def update(self, observation: Observation) -> dict[str, list[str]]:
        """Process one step and return the departed mechanisms, each with the channels that departed."""
        moved: dict[str, list[str]] = {}
        self._departed = moved
        get, left = observation.finite.get, self.left
        self.policy.update(get(PAIRED))
        for name, mechanism, signal, channel, update in self._followed:
            value = get(signal)
            departs = value is not None and update(value)
            if departs and (name not in ENTROPY_CHANNELS or self.policy.explains(channel.change)):
                left[name] = HELD_ROWS
            elif left[name]:
                left[name] -= 1
            else:
                continue
            if left[name]:
                moved.setdefault(mechanism, []).append(name)
        return moved

    def describe(self, name: str) -> str:
        """Describe a channel's change in words: its name, and its baseline and level unless a rewind took them back."""
        channel = self.channels[name]
        baseline, level = channel.baseline, channel.level
        return name if baseline is None or level is None else f"{name} ({baseline:.3g} to {level:.3g})"

    @property
    def departed(self) -> dict[str, list[str]]:
        """The result of the newest step."""
        return self._departed

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest rows, and the departures that were counted from them."""
        super().take_back(rows, left)
        self.left, self._departed = dict.fromkeys(self.left, 0), {}

    def restart(self) -> None:
        """Discard all baselines, and the departures that were counted from them."""
        for name, channel in self.channels.items():
            channel.restart()
            self.left[name] = 0


class SharedMechanisms(Stateful):
    """Mechanisms that another detector owns: it updates them before this one in each step, and saves them.

    Args:
        source: The mechanisms of that detector.
        only: The mechanisms to follow; None follows all.
    """

    def __init__(self, source: Mechanisms, only: Collection[str] | None = None) -> None:
        self._source = source
        self._only = only

    def update(self, observation: Observation) -> dict[str, list[str]]:  # noqa: ARG002 - the owner has processed it
        """Return the departed mechanisms of this step, each with the channels that departed."""
        departed = self._source.departed
        if self._only is None or not departed:
            return departed
        return {name: departed[name] for name in departed if name in self._only}

    @property
    def channels(self) -> dict[str, Departure]:
        """The channels of the owner."""
        return self._source.channels

    def describe(self, name: str) -> str:
        """Describe a channel's change in words."""
        return self._source.describe(name)

    def restart(self) -> None:
        """Do nothing: the owner discards the baselines."""


class _PolicyEntropy(Stateful):
    """The policy's own entropy, as the sum of its paired changes, seen through the windows of a `Departure`."""

    def __init__(self) -> None:
        self.entropy = 0.0
        self.departure = Departure(Size())
        self.unpaired = 0
        self.coverage = Coverage()

    def update(self, delta: float | None) -> None:
        self.coverage.update(delta is not None)
        self.unpaired += 1
        if delta is not None:
            self.unpaired = 0
            self.entropy += delta
            self.departure.append(self.entropy)

    def take_back(self, rows: int, left: int) -> None:
        super().take_back(rows, left)
        if self.departure.values:
            self.entropy = self.departure.values[-1]

    def explains(self, change: float) -> bool:
        """Return whether at least half of a change of entropy is the policy's; True where this is not observed."""
        if self.unpaired > STALE_ROWS or self.departure.level is None or not self.coverage.is_dense:
            return True
        own = self.departure.change
        return own >= change / 2 if change > 0.0 else own <= change / 2
