"""Reads TRL's own metrics of one optimiser step, before TRL averages them over its logging window."""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from trainer_hooks.callbacks.shared.naming import SIGNALS, TRL, TRL_ASYNC, TRL_KTO, canonical

__all__ = ["StepMetrics"]

RATIO_NAMES = ("ratio/clip_frac", "ratio/clip_low_frac", "ratio/clip_high_frac")
# In these metrics NaN means that one or no response was scored; a reward of NaN counts as not scored.
REWARD_NAMES = ("reward", "reward_std")
# Under these losses TRL divides a microbatch's policy loss by the tokens of the whole step, under others by its own.
SHARED_LOSSES = ("cispo", "dapo", "vespo")
# Trainers whose metrics mean something else under the same name; all others have those of `TRL`.
OWN_NAMES = {"AsyncGRPOTrainer": TRL_ASYNC, "KTOTrainer": TRL_KTO}


class StepMetrics:
    """The metrics that TRL has appended since the step began.

    TRL appends each value to a list by name, ``trainer._metrics["train"]``, and empties the lists after every log. A
    log may happen in the middle of a step, so this class keeps the values from before it.

    Args:
        trainer: One of TRL's trainers.

    Attributes:
        canonical_names: Canonical names of this trainer's metrics, by TRL's names.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        classes = (each.__name__ for each in type(trainer).__mro__)
        self.canonical_names = next((OWN_NAMES[name] for name in classes if name in OWN_NAMES), TRL)
        # Each list, and how long it was when the step began. TRL replaces some lists instead of appending to them.
        self._begin: dict[str, tuple[list[float], int]] = {}
        self._before_log: dict[str, list[float]] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names, in TRL's spelling, of all metrics that wait to be logged."""
        return frozenset(self._lists())

    def begin_step(self) -> None:
        """Ignore the values that are there already. Call this before the step's batches are fetched."""
        self._before_log = {}
        self._begin = {name: (values, len(values)) for name, values in self._lists().items()}

    def after_log(self) -> None:
        """Keep the step's values. Call this when TRL logs, because TRL empties its lists after that."""
        self._before_log, self._begin = self._values(), {}

    def means(self, *, has_ratios: bool) -> dict[str, float]:
        """Average each metric over the step, and return it under its canonical name or as ``trl/<name>``.

        The loss of the policy, which TRL records beside an entropy bonus, is that of the step, as the trainer's own.

        Args:
            has_ratios: Whether probability ratios are measured. With one update per rollout they are 1 by construction,
                and the clipped shares, which are then 0, are left out. AsyncGRPOTrainer always measures them.
        """
        measured, means = {}, {}
        for name, values in self._values().items():
            with suppress(Exception):  # a metric of the user's may hold anything, and costs itself alone
                if kept := self._leave_out_unmeasured(name, values):
                    measured[name], means[name] = kept, _mean(kept)
        if "policy_loss" in means and getattr(self._trainer, "loss_type", None) in SHARED_LOSSES:
            means["policy_loss"] = sum(measured["policy_loss"])
        numbers = canonical(means, self.canonical_names, prefix="trl")
        return (
            numbers
            if has_ratios or self.canonical_names is TRL_ASYNC
            else {name: numbers[name] for name in numbers if name not in RATIO_NAMES}
        )

    def _leave_out_unmeasured(self, name: str, values: list[float]) -> list[float]:
        """Leave out the values that TRL records where there is nothing to measure."""
        # TRL averages every metric without its NaN. Of a canonical signal, NaN is a finding.
        if name in REWARD_NAMES or self.canonical_names.get(name, name) not in SIGNALS:
            return [value for value in values if not _is_nan(value)]
        # Of a microbatch whose responses are all masked TRL records the entropy 0. A policy whose entropy is 0 is known
        # from its tokens.
        return [value for value in values if value] if name == "entropy" else values

    def _lists(self) -> Mapping[str, list[float]]:
        lists: Mapping[str, list[float]] = getattr(self._trainer, "_metrics", {}).get("train", {})
        return lists

    def _values(self) -> dict[str, list[float]]:
        new = {}
        for name, values in self._lists().items():
            before, count = self._begin.get(name, (values, 0))
            new[name] = values[count:] if values is before else values
        return self._before_log | {name: self._before_log.get(name, []) + values for name, values in new.items()}


def _mean(values: list[Any]) -> Any:
    """Return the mean, or the sum where no float can hold it, so that `log_step` counts the number."""
    if isinstance(values[0], tuple):  # AsyncGRPOTrainer keeps rates as numerators and denominators
        numerator, denominator = map(sum, zip(*values, strict=True))
        return numerator / denominator if denominator else math.nan
    try:
        return sum(values) / len(values)
    except OverflowError:
        return sum(values)


def _is_nan(value: Any) -> bool:
    try:
        return math.isnan(value)
    except (OverflowError, TypeError):  # an integer that no float can hold, or a pair of numbers
        return False
