"""Garbled text: loops, another language and gibberish, recognised by token ids and likelihoods alone."""

from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.anchored import AnchoredDeparture
from monitor_server.detection.statistics.departure import Size

__all__ = ["GarbledText"]

LOOPING, UNSEEN, USUAL, PAIRS = (
    "text/looping_frac",
    "text/unseen_frac",
    "text/usual_frac",
    "text/unseen_pairs_frac",
)
ENTROPY, INCORRECT = "entropy/mean", "likelihood/incorrect"
# In a share that is mostly 0, single responses and tokens are noise that a robust deviation does not contain.
NOISE = 0.01


class Form(ShiftDetector):
    """One form of garble: a share departs from its newest rows, or by 2.5 times as much from its first ones."""

    severity = Severity.WARNING

    def __init__(self) -> None:
        super().__init__()
        self._saves_order = False  # `GarbledText` decides the order of rows
        self.departure = AnchoredDeparture(self.size)
        self._departs = self.departure.update

    def _describe_rule(self) -> str:
        return f"{super()._describe_rule()}; or b = median of the first 8, by 2.5 times as much"


class Loops(Form):
    """Finds that more responses than before repeat themselves; the findings have the kind of any other repetition."""

    kind = "repetition"
    reads = (LOOPING,)
    size = Size(factor=2.0, least=0.06, errors=6.0, rows=3, noise=NOISE)
    what = "Loops: the share of responses that mostly repeat themselves"


class Language(Form):
    """Finds that responses use tokens in place of the usual ones that the first steps did not have."""

    kind = "garbled_text"
    reads = (UNSEEN,)
    size = Size(factor=2.0, least=0.1, errors=6.0, rows=3, noise=NOISE)
    what = "Another language or script: the share of tokens that the first steps did not have"

    def __init__(self) -> None:
        super().__init__()
        self.usual = AnchoredDeparture(Size(factor=0.92, errors=2.0, rows=3, rarity=1.0))

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        usual = observation.finite.get(USUAL)
        if usual is not None:
            self.usual.update(usual)
        return super()._observe(observation)

    def _is_confirmed(self, observation: Observation) -> bool:  # noqa: ARG002 - of the base class
        return self.usual.departs

    def _list_agreeing(self) -> list[str]:
        return [USUAL]

    def _describe_rule(self) -> str:
        return f"{super()._describe_rule()}, while {USUAL} falls by 8 % and 2 deviations"

    def _rebaseline(self) -> None:
        super()._rebaseline()
        self.usual.restart()


class Gibberish(Form):
    """Finds that pairs of tokens occur that never occurred before, and that the policy expects its tokens less."""

    kind = "garbled_text"
    reads = (PAIRS,)
    size = Size(factor=1.5, least=0.12, errors=6.0, rows=3, noise=NOISE)
    what = "Gibberish: the share of pairs of tokens that the first steps did not have"

    def __init__(self) -> None:
        super().__init__()
        self.entropy = AnchoredDeparture(Size(factor=1.5, least=0.4, errors=4.0, rows=3, rarity=1.0))
        self.surprise = AnchoredDeparture(Size(least=0.7, errors=4.0, rows=3, rarity=1.0))

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        entropy, incorrect = (observation.finite.get(name) for name in (ENTROPY, INCORRECT))
        if entropy is not None:
            self.entropy.update(entropy)
        if incorrect is not None:
            self.surprise.update(-incorrect)
        return super()._observe(observation)

    def _is_confirmed(self, observation: Observation) -> bool:  # noqa: ARG002 - of the base class
        return self.entropy.departs or self.surprise.departs

    def _list_agreeing(self) -> list[str]:
        signs = ((self.entropy, ENTROPY), (self.surprise, INCORRECT))
        return [name for sign, name in signs if sign.departs]

    def _describe_rule(self) -> str:
        return (
            f"{super()._describe_rule()}, while {ENTROPY} rises by half and 0.4 nat or {INCORRECT} falls by 0.7 nat, "
            "by 4 deviations"
        )

    def _rebaseline(self) -> None:
        super()._rebaseline()
        self.entropy.restart()
        self.surprise.restart()


class GarbledText(StreamDetector):
    """Warns when responses turn into loops, another language or gibberish; ``form`` in the evidence names the form.

    Loops have the kind ``repetition``. They are found if a twentieth of the responses loops, and also if text that
    repeats itself by nature hides them from 4-grams of all responses. New tokens are another language if the policy is
    as certain of them as before, and gibberish otherwise.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> series = {"text/unseen_frac": [0.01, 0.02, 0.01] * 4 + [0.4] * 4,
    ...           "text/usual_frac": [0.51, 0.52, 0.50] * 4 + [0.3] * 4}
    >>> episodes(GarbledText(), series)
    [(13, 'garbled_text', 'warning')]
    """

    kind = "garbled_text"
    severity = Severity.WARNING
    # Entropy and likelihood only confirm a finding, so a run that sends only these does not count as observed.
    reads = (LOOPING, UNSEEN, USUAL, PAIRS)
    skips_rows_without = True

    def __init__(self) -> None:
        super().__init__()
        self.loop, self.language, self.gibberish = Loops(), Language(), Gibberish()
        self._forms: dict[str, Form] = {"loop": self.loop, "language": self.language, "gibberish": self.gibberish}

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        found: dict[str, Finding] = {}
        for form, part in self._forms.items():
            for finding in part._observe(observation):  # noqa: SLF001 - the order of rows is decided once, here
                found[form] = finding._replace(evidence={**finding.evidence, "form": form})
        if "gibberish" in found:
            found.pop("language", None)
        return list(found.values())

    def _resume(self, step: int) -> None:
        for part in self._forms.values():
            part._resume(step)  # noqa: SLF001 - the order of rows is decided once, here

    def _rebaseline(self) -> None:
        for part in self._forms.values():
            part._rebaseline()  # noqa: SLF001 - the order of rows is decided once, here
