"""Which part of a training each kind of alert points at, and what to check first where no remedy is known.

A suspect is where to look first, and no proof. An alert about the trainer's own numbers makes every other alert of the
run doubtful that was made from them: then the instrument is checked first.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

__all__ = ["INSTRUMENT_KINDS", "SUSPECTS", "Suspect", "doubts", "first_steps", "suspect_of"]


class Suspect(StrEnum):
    """The part of a training that an alert points at."""

    POLICY = "policy"
    """The model has changed what it writes."""
    ENVIRONMENT = "environment"
    """The questions, the tools or their limits."""
    GRADER = "grader"
    """What gives the reward."""
    OPTIMISER = "optimiser"
    """The update: learning rate, advantages, clipping, staleness of the responses."""
    INSTRUMENT = "instrument"
    """What measures: the code that scores, masks and logs, or detection itself."""
    UNKNOWN = "unknown"
    """The kind alone does not tell."""


_KINDS_BY_SUSPECT: Final[Mapping[Suspect, str]] = {
    Suspect.POLICY: "attention_collapse control_token_anomaly control_token_spike death_spiral entropy_collapse "
    "entropy_drift entropy_explosion garbled_text kl_runaway length_collapse length_explosion likelihood_drift "
    "likelihood_stagnation repetition router_collapse tool_use_collapse truncation",
    Suspect.ENVIRONMENT: "all_truncated dead_environment",
    Suspect.GRADER: "equal_rewards reward_hacking reward_signal_dead",
    Suspect.OPTIMISER: "advantage_order clip_surge frozen_ratio gradient_explosion learning_rate_rise loss_explosion "
    "off_policy_blowup ratio_tail zero_rate",
    Suspect.INSTRUMENT: "impossible_likelihood instrument_gap mismatch_growth monitor_degraded sampler_gap "
    "sampler_mismatch unmasked_feedback",
    # A fallen reward, a collapse and a departure of several signals have causes in every part; NaN may begin in any; a
    # silent trainer says nothing about its training. `benchmarks.detection.causes` measures how often suspects are
    # right: a shift of difficulty came with a broken grader, a high learning rate or displacement more often than with
    # other questions, in the open data of both suites.
    Suspect.UNKNOWN: "difficulty_shift joint_departure non_finite plateau reward_fall run_collapsed telemetry_stale "
    "trainer_lost",
}

SUSPECTS: Final[Mapping[str, Suspect]] = {
    kind: suspect for suspect, kinds in _KINDS_BY_SUSPECT.items() for kind in kinds.split()
}
"""The suspect of each kind of alert; rules have kinds of their own and no suspect."""

INSTRUMENT_KINDS: Final = frozenset(
    {"impossible_likelihood", "instrument_gap", "sampler_gap", "sampler_mismatch", "unmasked_feedback"}
)
"""The kinds that say that the numbers of a run may be wrong. A mismatch that only grows may be the policy's own."""

# Alerts that are made without the numbers of the trainer, which a broken instrument therefore does not explain.
_WITHOUT_NUMBERS: Final = frozenset({"telemetry_stale", "trainer_lost"})

_FIRST_STEPS: Final[Mapping[str, str]] = {
    "difficulty_shift": "compare the newest questions with earlier ones. If they are no harder, grade some sampled "
    "responses by hand, and check the learning rate.",
    "telemetry_stale": "check whether the trainer lives, is stuck (py-spy dump shows where) or cannot reach the "
    "collector (its log says so). See the runbook GRPOTelemetryStale.",
    "trainer_lost": "check whether the job ran out of memory, was preempted or lost its machine, and resume it from "
    "its last checkpoint. If the run is given up, acknowledge the alert. See the runbook GRPOTrainerLost.",
    "monitor_degraded": "read the traceback in the collector's log, and leave the training alone. After a failed step "
    "(warning) detection reads the next step. A run that cannot be processed (critical) has no detection until that "
    "works; `rlvitals runs --reset ID` tries it again at once. See the runbook GRPOMonitorDegraded.",
}

_FIRST_STEPS_BY_SUSPECT: Final[Mapping[Suspect, str]] = {
    Suspect.POLICY: "read some sampled responses, and look at the evidence; no remedy is known for this kind.",
    Suspect.ENVIRONMENT: "check whether the tools answer, and what has changed in the questions and limits.",
    Suspect.GRADER: "grade some sampled responses by hand, and compare with their rewards.",
    Suspect.OPTIMISER: "check the learning rate, the advantages and the number of passes of the newest updates.",
    Suspect.INSTRUMENT: "compare the trainer's numbers for one response with a second computation, token by token.",
    Suspect.UNKNOWN: "look at the evidence; no remedy is known for this kind.",
}


def suspect_of(kind: str) -> Suspect:
    """Return the part of a training that a kind of alert points at.

    >>> str(suspect_of("reward_hacking")), str(suspect_of("rule:mine"))
    ('grader', 'unknown')
    """
    return SUSPECTS.get(kind, Suspect.UNKNOWN)


def doubts(kind: str, open_kinds: Collection[str]) -> list[str]:
    """Return the kinds of open alerts of a run because of which its instrument is to be checked before anything else.

    Args:
        kind: The kind of the alert that is read.
        open_kinds: The kinds of the alerts of the same run that are open at the same time.

    Returns:
        The kinds, sorted; none for an alert that is itself about the instrument, or made without the trainer's numbers.

    >>> doubts("death_spiral", ["instrument_gap", "reward_fall"])
    ['instrument_gap']
    """
    if suspect_of(kind) is Suspect.INSTRUMENT or kind in _WITHOUT_NUMBERS:
        return []
    return sorted(INSTRUMENT_KINDS & {*open_kinds})


def first_steps(kind: str) -> str:
    """Return what to check first about an alert without a known remedy, in sentences that follow a colon."""
    return _FIRST_STEPS.get(kind) or _FIRST_STEPS_BY_SUSPECT[suspect_of(kind)]
