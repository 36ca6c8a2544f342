"""Compares two statistics of token ids as signs of a loop, repeated 4-grams and compression, by period and by noise."""

import zlib

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.results_page.tables import Table

__all__ = ["compare"]

LENGTH = 400
RESPONSES = 100
PERIODS = (1, 3, 8, 30, 100, 180)
CHANGED = (0.0, 0.1, 0.2, 0.3)  # share of tokens that differ from the loop
VOCABULARY = 32_000
TAIL = 0.99  # quantile of text without loops, beyond which a response counts

Ids = NDArray[np.int64]


def compare() -> Table:
    """Return the share of looping responses that each statistic finds at 1 % of false ones, on Zipf-distributed ids."""
    rng = np.random.default_rng(0)
    plain = [_text(rng) for _ in range(RESPONSES)]
    bounds = {
        name: float(np.quantile([statistic(ids) for ids in plain], TAIL)) for name, statistic in STATISTICS.items()
    }
    rows = []
    for period in PERIODS:
        for changed in CHANGED:
            looping = [_loop(rng, period, changed) for _ in range(RESPONSES)]
            found = [sum(statistic(ids) > bounds[name] for ids in looping) for name, statistic in STATISTICS.items()]
            mostly = sum(_repetition(ids) > 1 / 2 for ids in looping)
            rows.append([str(period), f"{100 * changed:.0f} %", *(f"{count} %" for count in (*found, mostly))])
    header = ("period, tokens", "of them changed", "repeated 4-grams", "compression", "more than half of 4-grams")
    return Table(title=f"Looping responses of {LENGTH} tokens found, by statistic", header=header, rows=rows)


def _text(rng: np.random.Generator) -> Ids:
    return rng.zipf(1.2, LENGTH) % VOCABULARY


def _loop(rng: np.random.Generator, period: int, changed: float) -> Ids:
    ids = np.resize(_text(rng)[:period], LENGTH)
    return np.where(rng.random(LENGTH) < changed, _text(rng), ids)


def _repetition(ids: Ids) -> float:
    grams = list(zip(*(ids[place:].tolist() for place in range(4)), strict=False))
    return 1.0 - len(set(grams)) / len(grams)


def _compression(ids: Ids) -> float:
    data = ids.astype("<u4").tobytes()
    return len(data) / len(zlib.compress(data))


STATISTICS = {"repeated 4-grams": _repetition, "compression": _compression}
