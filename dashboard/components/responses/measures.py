"""The measures that colour the tokens of responses: their fields, the meaning of the colours, and the code to send."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dashboard.collector_client.types.responses import ResponseItem

__all__ = ["MEASURES", "TokenMeasure"]

MOST_TOKENS_SHARE: Final = 0.9  # of the tokens get less than the full colour, if the measure has no fixed scale


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMeasure:
    """One number for each action token. Below 0 a token is red, above 0 blue.

    Attributes:
        field: The field of a response that holds the numbers.
        title: The name of a token's value on hover.
        colours: The meaning of the colours.
        missing: The text about responses without the numbers; empty if every response has them.
        needs: The data that a trainer has to send.
        code: The code that sends the data.
        full: The size that gets the full colour; 0 if it depends on the response.
        sign: −1 if large numbers are red.
        is_worst_by_size: Whether the worst token is the one of the largest size rather than the lowest number.
        unit: The unit of the numbers.
    """

    field: Literal["displacements", "logprobs", "entropies", "mismatches", "advantages"]
    title: str
    colours: str
    missing: str = ""
    needs: str = ""
    code: str = ""
    full: float = 0.0
    sign: int = 1
    is_worst_by_size: bool = False
    unit: str = " nat"

    def is_observed(self, response: ResponseItem) -> bool:
        """Return whether a response has the numbers."""
        return bool(response.get(self.field))  # an older collector does not send every field

    def numbers(self, response: ResponseItem) -> list[float]:
        """Return the numbers of the action tokens with the sign of their colour; none where not observed."""
        return [self.sign * value for value in response.get(self.field) or []]

    def full_size(self, numbers: Sequence[float]) -> float:
        """Return the size that gets the full colour among the numbers of a response."""
        if self.full:
            return self.full
        sizes = sorted(abs(value) for value in numbers if math.isfinite(value))
        return (sizes[int(MOST_TOKENS_SHARE * (len(sizes) - 1))] if sizes else 0.0) or 1.0

    def badness(self, number: float | None) -> float:
        """Return a number that is lowest for the worst token."""
        if number is None or math.isnan(number):
            return math.inf
        return -abs(number) if self.is_worst_by_size else number


MEASURES: Final = {
    "displacement": TokenMeasure(
        field="displacements",
        title="displacement",
        missing="Displacement is not observed",
        colours="Red: the update made the token less likely; blue: more likely. Nine in ten tokens of a response "
        "changed less than those in full colour.",
        needs="the old policy's log-probabilities, with an update between the two policies",
        code="Rollouts(..., old_logprobs=old)",
    ),
    "log-probability": TokenMeasure(
        field="logprobs",
        title="ln p",
        colours="Red: the token is unlikely; full colour from −5 nat on.",
        full=5.0,
    ),
    "entropy": TokenMeasure(
        field="entropies",
        title="entropy",
        missing="Entropy is not observed",
        colours="Red: the model is uncertain; full colour from 5 nat on.",
        needs="token entropies",
        code="Rollouts(..., entropies=entropies)",
        full=5.0,
        sign=-1,
    ),
    "mismatch": TokenMeasure(
        field="mismatches",
        title="mismatch",
        missing="Mismatch is not observed",
        colours="Red: less likely for the trainer than for the sampler; blue: more likely. Full colour where one "
        "probability is twice the other.",
        needs="the sampler's log-probabilities",
        code="Rollouts(..., sampler_logprobs=sampler)",
        full=math.log(2),
        is_worst_by_size=True,
    ),
    "advantage": TokenMeasure(
        field="advantages",
        title="advantage",
        colours="Red: below 0; blue: above 0. Nine in ten tokens of a response have less than those in full colour.",
        missing="Advantages of single tokens were not sent",
        needs="advantages of tokens (B, T) that differ within a response (else the line of facts has its advantage)",
        code="Rollouts(..., advantages=advantages)",
        is_worst_by_size=True,
        unit="",
    ),
}
