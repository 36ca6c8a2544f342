"""Authored runs whose responses turn into garble, and healthy ones that could be taken for it; made from seeds alone.

They are runs of suite A's generator. The shares of garbled responses add the signals of token ids and likelihoods.
Reward and updates stay those of a run that learns, so that no other signal shows the failure. The sizes of the healthy
changes are those that responses of the reference trainer showed (`recorded`), and beyond.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.detection.authored import benign
from benchmarks.detection.authored.latent import Latent, learning
from benchmarks.detection.authored.noise import HORIZON, Floats
from benchmarks.detection.authored.observe import observe
from monitor_server.detection.protocol import Observation

__all__ = ["FAILURES", "HEALTHY", "GarbledRun", "make_run"]

FIRST_STEPS = 20  # as of the hooks: no share of unseen tokens before
STEPS = np.arange(HORIZON, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbledRun:
    """A run with its truth: where its responses begin to be garbled and how, or neither."""

    name: str
    kind: str
    observations: list[Observation]
    onset: int | None
    form: str | None


@dataclass(slots=True, kw_only=True)
class Texts:
    """The signals of the token ids of a run's responses at every step, before noise, and their effect on likelihoods.

    ``entropy`` is a factor, ``surprise`` and ``confusion`` are added to −ln π of incorrect responses and to the
    entropy, nats.
    """

    looping: Floats
    repetition: Floats
    unseen: Floats
    usual: Floats
    pairs: Floats
    entropy: Floats
    surprise: Floats
    confusion: Floats


Change = Callable[[Texts, np.random.Generator], int | None]


def make_run(kind: str, seed: int) -> GarbledRun:
    """Make the run of a kind and a seed; the same every time."""
    number = list((FAILURES | HEALTHY).keys()).index(kind)
    shape, measurement, text = (
        np.random.default_rng(child) for child in np.random.SeedSequence([seed, number]).spawn(3)
    )
    latent = benign.length_growth(shape) if kind == "longer responses" else learning(shape)
    texts = _texts(text)
    onset = (FAILURES | HEALTHY)[kind](texts, text)
    rows = [_with_text(row, texts, latent, text) for row in observe(latent, measurement)]
    return GarbledRun(
        name=f"{kind}/{seed}",
        kind=kind,
        observations=rows,
        onset=onset if kind in FAILURES else None,
        form=kind.split(",", maxsplit=1)[0] if kind in FAILURES else None,
    )


def _texts(rng: np.random.Generator) -> Texts:
    """Return the texts of a run that learns: its style moves a little, so that unseen pairs grow with time."""
    settle = 1.0 - np.exp(-STEPS / rng.uniform(40.0, 200.0))
    return Texts(
        looping=np.full(HORIZON, rng.uniform(0.0, 0.03)),
        repetition=np.zeros(HORIZON),
        unseen=rng.uniform(0.0005, 0.03) + rng.uniform(0.0, 0.03) * settle,
        usual=rng.uniform(0.5, 0.56) + rng.uniform(-0.03, 0.03) * settle,
        pairs=rng.uniform(0.02, 0.25) + rng.uniform(0.0, 0.12) * settle,
        entropy=np.ones(HORIZON),
        surprise=np.zeros(HORIZON),
        confusion=np.zeros(HORIZON),
    )


def _share(rng: np.random.Generator, *, rows: tuple[float, float], most: tuple[float, float]) -> tuple[int, Floats]:
    """Draw an onset and the share of garbled responses, which grows to its most within some rows."""
    onset = int(rng.integers(40, 200))
    return onset, rng.uniform(*most) * np.clip((STEPS - onset + 1.0) / rng.uniform(*rows), 0.0, 1.0)


def _loop(texts: Texts, rng: np.random.Generator, share: Floats) -> None:
    """Loop: the policy is sure of the repeated tokens."""
    texts.looping = texts.looping + (1.0 - texts.looping) * share
    texts.repetition = rng.uniform(0.5, 0.95) * share
    texts.usual = texts.usual + rng.uniform(-0.3, 0.3) * share
    texts.entropy = texts.entropy * (1.0 - rng.uniform(0.3, 0.9) * share)


def _language(texts: Texts, rng: np.random.Generator, share: Floats) -> None:
    """Write in other tokens, as fluently."""
    texts.unseen = texts.unseen + (rng.uniform(0.7, 0.98) - texts.unseen) * share
    texts.usual = texts.usual * (1.0 - rng.uniform(0.7, 1.0) * share)
    texts.pairs = texts.pairs + (rng.uniform(0.85, 1.0) - texts.pairs) * share
    texts.entropy = texts.entropy * (1.0 + rng.uniform(-0.2, 0.3) * share)


def _gibberish(texts: Texts, rng: np.random.Generator, share: Floats) -> None:
    """Write familiar words in no order, or any tokens at all."""
    strange = rng.uniform(0.0, 0.6)
    texts.unseen = texts.unseen + strange * share
    texts.usual = texts.usual * (1.0 - (0.3 + strange) * rng.uniform(0.0, 1.0) * share)
    texts.pairs = texts.pairs + (rng.uniform(0.6, 0.95) - texts.pairs) * share
    nats = rng.uniform(2.0, 8.0)
    texts.surprise, texts.confusion = nats * share, rng.uniform(0.3, 1.0) * nats * share


FORMS = {"loop": _loop, "language": _language, "gibberish": _gibberish}
PACES: dict[str, dict[str, tuple[float, float]]] = {
    "sudden": {"rows": (1.0, 4.0), "most": (0.25, 1.0)},
    "slow": {"rows": (30.0, 120.0), "most": (0.4, 1.0)},
    "weak": {"rows": (1.0, 10.0), "most": (0.08, 0.25)},
}


def _failure(form: str, pace: str) -> Change:
    def change(texts: Texts, rng: np.random.Generator) -> int:
        onset, share = _share(rng, **PACES[pace])
        FORMS[form](texts, rng, share)
        return onset

    return change


def _at(rng: np.random.Generator, first: int, last: int, width: tuple[float, float] = (1.0, 15.0)) -> Floats:
    return np.clip((STEPS - rng.integers(first, last) + 1.0) / rng.uniform(*width), 0.0, 1.0)


def _plain(_: Texts, __: np.random.Generator) -> None:
    """Learn, and settle."""


def _longer(texts: Texts, rng: np.random.Generator) -> None:
    """Write more, in which a little more repeats."""
    texts.looping = texts.looping + rng.uniform(0.0, 0.04) * _at(rng, 20, 120, (40.0, 150.0))
    texts.repetition = rng.uniform(0.0, 0.08) * _at(rng, 20, 120, (40.0, 150.0))


def _new_format(texts: Texts, rng: np.random.Generator) -> None:
    """Learn a format early: its marks are new, the words within are not, and the policy becomes sure of them."""
    learned = _at(rng, 5, 60)
    texts.unseen = texts.unseen + rng.uniform(0.005, 0.06) * learned
    texts.usual = texts.usual - rng.uniform(0.0, 0.05) * learned
    texts.pairs = texts.pairs + rng.uniform(0.03, 0.2) * learned
    texts.entropy = texts.entropy * (1.0 - rng.uniform(0.0, 0.4) * learned)


def _code(texts: Texts, rng: np.random.Generator) -> None:
    """Answer in code, where lines resemble each other; how many do depends on the prompts."""
    level = rng.uniform(0.15, 0.5)
    texts.looping = np.clip(level * (1.0 + 0.15 * np.sin(STEPS / rng.uniform(5.0, 40.0))), 0.0, 0.9)
    texts.repetition = np.full(HORIZON, rng.uniform(0.2, 0.4))


def _temperature(texts: Texts, rng: np.random.Generator) -> None:
    """Sample at a higher temperature from some step on: less likely words, more pairs that are new."""
    hotter = (rng.integers(30, 250) <= STEPS).astype(np.float64)
    texts.entropy = texts.entropy * (1.0 + rng.uniform(0.2, 0.7) * hotter)
    texts.surprise = rng.uniform(0.1, 0.7) * hotter
    texts.pairs = texts.pairs + rng.uniform(0.02, 0.12) * hotter
    texts.unseen = texts.unseen + rng.uniform(0.0, 0.02) * hotter
    texts.usual = texts.usual - rng.uniform(0.0, 0.07) * hotter


def _new_topics(texts: Texts, rng: np.random.Generator) -> None:
    """Meet new prompts without a declaration: their words are new, the words between them are not."""
    share = _at(rng, 30, 250)
    texts.unseen = texts.unseen + rng.uniform(0.02, 0.12) * share
    texts.pairs = texts.pairs + rng.uniform(0.05, 0.25) * share
    texts.usual = texts.usual - rng.uniform(0.0, 0.02) * share
    texts.entropy = texts.entropy * (1.0 + rng.uniform(-0.1, 0.2) * share)


FAILURES: dict[str, Change] = {f"{form}, {pace}": _failure(form, pace) for form in FORMS for pace in PACES}
HEALTHY: dict[str, Change] = {
    "healthy": _plain,
    "longer responses": _longer,
    "a new format": _new_format,
    "code": _code,
    "a higher temperature": _temperature,
    "new topics": _new_topics,
}


def _with_text(row: Observation, texts: Texts, latent: Latent, rng: np.random.Generator) -> Observation:
    """Measure the texts of a step: shares of a limited number of responses, and likelihoods that go with them."""
    step, signals = row.step, dict(row.signals)
    responses = latent.prompts * latent.group_size
    few = 1.0 / np.sqrt(latent.prompts)

    def measure(level: float, noise: float) -> float:
        return float(np.clip(level + noise * rng.standard_normal(), 0.0, 1.0))

    signals["text/looping_frac"] = float(rng.binomial(responses, min(1.0, texts.looping[step]))) / responses
    if "text/repetition" in signals:
        signals["text/repetition"] = min(1.0, signals["text/repetition"] + texts.repetition[step])
    if step >= FIRST_STEPS:
        unseen, pairs = texts.unseen[step], texts.pairs[step]
        signals["text/unseen_frac"] = measure(unseen, few * np.sqrt(unseen * (1.0 - unseen)) / 4.0)
        signals["text/usual_frac"] = measure(texts.usual[step], 0.06 * few)
        signals["text/unseen_pairs_frac"] = measure(pairs, few * np.sqrt(pairs * (1.0 - pairs)) / 4.0)
    if "entropy/mean" in signals:
        signals["entropy/mean"] = signals["entropy/mean"] * texts.entropy[step] + texts.confusion[step]
    if "likelihood/incorrect" in signals:
        signals["likelihood/incorrect"] = signals["likelihood/incorrect"] * texts.entropy[step] - texts.surprise[step]
    return replace(row, signals=signals)
