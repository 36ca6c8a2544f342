"""The signals that may move before an alert, with the bad direction of each and the change that matters.

This module contains declarations only. The names are those of docs/signals.md.
"""

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["VITALS", "Direction", "Vital"]

Direction = Literal["rise", "fall", "either"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vital:
    """How to read one signal.

    Attributes:
        bad: The direction in which it is a departure.
        least: The smallest change that matters, in the signal's unit; for a logarithm, 0.2 is 22 %.
        is_log: Whether the logarithm of the signal is used: norms, ratios, lengths.
        is_sum: Whether the running sum of the signal is used: changes from step to step.
    """

    bad: Direction
    least: float
    is_log: bool = False
    is_sum: bool = False


NATS, SHARE, FOLD = 0.02, 0.02, 0.2

VITALS: Final[dict[str, Vital]] = {
    "likelihood/correct": Vital(bad="fall", least=NATS),
    "likelihood/incorrect": Vital(bad="fall", least=NATS),
    **{f"likelihood/action{index}": Vital(bad="fall", least=NATS) for index in range(8)},
    "likelihood/p05": Vital(bad="fall", least=2 * NATS),
    "entropy/mean": Vital(bad="either", least=NATS),
    "entropy/paired_delta": Vital(bad="either", least=NATS, is_sum=True),
    "displacement/cross": Vital(bad="fall", least=NATS, is_sum=True),
    "displacement/fell_frac": Vital(bad="rise", least=0.1),
    "lld/gated_responses_frac": Vital(bad="rise", least=0.1),
    "grad/norm": Vital(bad="rise", least=FOLD, is_log=True),
    "loss/policy": Vital(bad="either", least=0.1),
    "ratio/max": Vital(bad="rise", least=FOLD, is_log=True),
    "ratio/p999": Vital(bad="rise", least=FOLD / 2, is_log=True),
    "ratio/ess_frac": Vital(bad="fall", least=SHARE),
    "ratio/clip_frac": Vital(bad="rise", least=0.005),
    "kl/old": Vital(bad="rise", least=0.005),
    "kl/ref": Vital(bad="rise", least=0.05),
    "mismatch/logprob_abs": Vital(bad="rise", least=0.005),
    "mismatch/kl": Vital(bad="rise", least=0.005),
    "reward/mean": Vital(bad="fall", least=0.05),
    "reward/zero_std_frac": Vital(bad="rise", least=0.1),
    "advantage/reward_corr": Vital(bad="fall", least=0.1),
    "length/mean": Vital(bad="either", least=FOLD, is_log=True),
    "length/truncated_frac": Vital(bad="rise", least=SHARE),
    "tools/calls": Vital(bad="either", least=0.1),
    "tools/valid_frac": Vital(bad="fall", least=SHARE),
    "control/prob": Vital(bad="fall", least=SHARE),
    "text/repetition": Vital(bad="rise", least=SHARE),
    "text/looping_frac": Vital(bad="rise", least=SHARE),
    "text/unseen_frac": Vital(bad="rise", least=SHARE),
    "text/unseen_pairs_frac": Vital(bad="rise", least=0.1),
    "moe/load_entropy": Vital(bad="fall", least=0.05),
    "qk/spectral_entropy": Vital(bad="fall", least=0.05),
    "finite/bad_values": Vital(bad="rise", least=0.5),
}
