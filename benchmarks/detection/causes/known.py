"""The cause of each failing kind of suites A and D: the part that was set to fail, with a reason for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.detection.induced.failures import Cause
from monitor_server.detection.suspects import Suspect

__all__ = ["KNOWN", "LEFT_OUT", "KnownCause", "known_cause"]


@dataclass(frozen=True, slots=True)
class KnownCause:
    """The suspects that are right answers, and why.

    Attributes:
        suspects: The part that was set to fail comes first. A second one is as right an answer.
        reason: Why, in words.
    """

    suspects: tuple[Suspect, ...]
    reason: str

    @property
    def name(self) -> Suspect:
        """The part that was set to fail."""
        return self.suspects[0]


_ENVIRONMENT, _GRADER, _INSTRUMENT, _OPTIMISER, _POLICY = (
    Suspect.ENVIRONMENT,
    Suspect.GRADER,
    Suspect.INSTRUMENT,
    Suspect.OPTIMISER,
    Suspect.POLICY,
)
_TWO_SIDES: Final = "the sampler is not the trainer's policy: what measures is wrong, and the responses are stale too"

KNOWN: Final[Mapping[str, KnownCause]] = {
    "displacement": KnownCause((_POLICY,), "the policy loses likelihood under an update without a fault"),
    "failure/entropy_collapse": KnownCause((_POLICY,), "the policy stops exploring; no other part is changed"),
    "failure/entropy_explosion": KnownCause((_POLICY,), "the policy's entropy alone is moved"),
    "failure/tool_use_collapse": KnownCause((_POLICY,), "the policy gives its tools up, and they still answer"),
    "failure/control_token_spike": KnownCause((_POLICY,), "the policy breaks the protocol"),
    "failure/reward_hacking": KnownCause((_GRADER, _POLICY), "the grader lets it pass, and the policy exploits it"),
    "failure/offpolicy_blowup": KnownCause((_INSTRUMENT, _OPTIMISER), _TWO_SIDES),
    "failure/gradient_explosion": KnownCause((_OPTIMISER,), "the gradient grows first, and the policy breaks by it"),
    "failure/advantage_order": KnownCause((_OPTIMISER,), "the advantages of the update are dealt to other responses"),
    "fault/tools_fail": KnownCause((_ENVIRONMENT,), "the tools return errors"),
    "fault/tools_silent": KnownCause((_ENVIRONMENT,), "the tools return nothing"),
    "fault/limit_lowered": KnownCause((_ENVIRONMENT,), "the limit of tokens is lowered"),
    "fault/questions_lost": KnownCause((_ENVIRONMENT,), "the questions lose their content"),
    "fault/cut_from_start": KnownCause((_ENVIRONMENT,), "the limit of tokens is too low for the task"),
    "fault/grader_constant": KnownCause((_GRADER,), "the verdicts are constant"),
    "fault/constant_from_start": KnownCause((_GRADER,), "the verdicts are constant"),
    "fault/grader_random": KnownCause((_GRADER,), "the verdicts belong to other responses"),
    "fault/grader_inverted": KnownCause((_GRADER,), "the verdicts are inverted"),
    "fault/rate_rise": KnownCause((_OPTIMISER,), "the learning rate rises"),
    "fault/rate_ramp": KnownCause((_OPTIMISER,), "the learning rate rises"),
    "fault/stale_responses": KnownCause((_OPTIMISER,), "the update repeats the same responses without a limit"),
    "fault/opposed_from_start": KnownCause((_OPTIMISER,), "the advantages have the wrong sign"),
    "fault/zero_rate": KnownCause((_OPTIMISER,), "the learning rate is 0"),
    "fault/frozen_ratio": KnownCause((_OPTIMISER,), "the old log-probabilities are the new ones"),
    "fault/sampler_gap_from_start": KnownCause((_INSTRUMENT,), "the sampler has another temperature or template"),
    "fault/sampler_gap": KnownCause((_INSTRUMENT, _OPTIMISER), _TWO_SIDES),
    "fault/feedback_in_mask": KnownCause((_INSTRUMENT,), "the mask counts what the policy did not write"),
    "fault/likelihood_constant": KnownCause((_INSTRUMENT,), "the logged likelihoods are not computed"),
    "fault/likelihood_stuck": KnownCause((_INSTRUMENT,), "the logged likelihoods are no longer computed"),
    "fault/likelihood_sign": KnownCause((_INSTRUMENT,), "the logged likelihoods have the wrong sign"),
    "fault/likelihood_zero": KnownCause((_INSTRUMENT,), "the logged likelihoods are zeros"),
    "fault/recomputed_logprobs": KnownCause((_INSTRUMENT,), "the logged likelihoods are not those of the weights"),
    "fault/recomputed_mask": KnownCause((_INSTRUMENT,), "the mask is not that of the tokens"),
    "fault/entropy_misreported": KnownCause((_INSTRUMENT,), "the logged entropy is not that of the weights"),
    Cause.LEARNING_RATE: KnownCause((_OPTIMISER,), "the learning rate is multiplied"),
    Cause.STALE_EPOCHS: KnownCause((_OPTIMISER,), "each batch is trained on too often, and nothing is clipped"),
    Cause.LENGTH_REWARD: KnownCause((_GRADER,), "the reward pays for length; the policy only follows it"),
    Cause.GRADER_CONSTANT: KnownCause((_GRADER,), "the verdicts are constant"),
    Cause.GRADER_RANDOM: KnownCause((_GRADER,), "the verdicts belong to other responses"),
    Cause.GRADER_INVERTED: KnownCause((_GRADER,), "the verdicts are inverted"),
    Cause.SAMPLER_DRIFT: KnownCause((_INSTRUMENT, _OPTIMISER), _TWO_SIDES),
    Cause.TEMPERATURE: KnownCause((_INSTRUMENT,), "the sampler's temperature is not the one that the trainer assumes"),
    Cause.DEAD_ENVIRONMENT: KnownCause((_ENVIRONMENT,), "the questions arrive without their content"),
    Cause.POISONED_BATCH: KnownCause((_OPTIMISER,), "the advantages of three updates are out of scale"),
    Cause.POISONED_ANSWERS: KnownCause(
        (_GRADER, _ENVIRONMENT), "the grader compares with wrong answers, which come with the questions"
    ),
    Cause.LOW_PRECISION: KnownCause((_OPTIMISER,), "the weights are rounded after each update"),
    Cause.UNENDING: KnownCause(
        (_INSTRUMENT, _ENVIRONMENT),
        "the sampler masks a token that the trainer does not, so that the limit ends responses",
    ),
    Cause.OPTIMISER_RESET: KnownCause((_OPTIMISER,), "the optimiser forgets its state"),
    Cause.UNZEROED_GRADIENTS: KnownCause((_OPTIMISER,), "gradients of two steps are added"),
    Cause.TOKENISER_SHIFT: KnownCause((_ENVIRONMENT,), "the questions arrive with other letters"),
    Cause.ADVANTAGE_SIGN: KnownCause((_OPTIMISER,), "the advantages have the wrong sign"),
    Cause.ADVANTAGE_ORDER: KnownCause((_OPTIMISER,), "the advantages of the update are dealt to other responses"),
    Cause.ADVANTAGE_EPSILON: KnownCause((_OPTIMISER,), "the advantages are divided by 0"),
}

LEFT_OUT: Final[Mapping[str, str]] = {
    "failure/non_finite": "the first NaN may come from any part, and none is set",
    "failure/sudden": "it is named after a mismatch of sampler and trainer, and moves the policy's signals alone",
}
"""The failing kinds of suite A without one right answer, and why."""


def known_cause(kind: str) -> KnownCause:
    """Return the cause of a kind of suite A, or of a failure of suite D, at any level.

    Raises:
        KeyError: If it has no single right answer, or is unknown.

    >>> str(known_cause("fault/rate_rise-10").name), str(known_cause("learning_rate-20-over-50").name)
    ('optimiser', 'optimiser')
    >>> known_cause("displacement/slow").suspects
    (<Suspect.POLICY: 'policy'>,)
    """
    if kind.startswith("displacement/"):
        return KNOWN["displacement"]
    return KNOWN[kind.partition("-")[0]]
