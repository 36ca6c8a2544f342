"""Shows another language or gibberish by token ids alone: compares tokens and pairs of tokens with the first steps.

The reference consists of the tokens of the first steps of this process: how often each token occurred, and which pairs
of successive tokens occurred. Both are kept in a fixed number of bins.
"""

from typing import Any, Final

from trainer_hooks.arrays import HOST, Array
from trainer_hooks.signals.action_tokens.ngrams import hash_ngrams
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, only_if, share

__all__ = ["FIRST_STEPS", "NAMES", "FamiliarTokens"]

NAMES = ("text/unseen_frac", "text/usual_frac", "text/unseen_pairs_frac")
# A step has thousands of tokens. After this many steps, nearly all tokens of the run's own language have occurred.
FIRST_STEPS: Final = 20
# This is more than the largest vocabularies have ids (256,000), so that ids hardly ever share a bin. The counts take
# 2 MiB.
BINS: Final = 1 << 18
# Ten million tokens of text hold one or two million different pairs, which take at most a third of the bins. So two
# thirds of the pairs that never occurred are still recognised as unseen. The flags take 4 MiB.
PAIR_BINS: Final = 1 << 22


class FamiliarTokens:
    """Notes the tokens and pairs of tokens of the first steps, and compares those of every later step with them.

    Keep one for each process and give it to `reduce` at every step. Its size is fixed. On a device it stays there, and
    no operation waits.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._counts: Array = 0.0
        self._pairs: Array | None = None  # whether each bin's pair occurred; the last bin takes what does not count
        self._tables: tuple[Array, Array, Array] | None = None

    def compute(self, tokens: ActionTokens) -> dict[str, PendingSummary]:
        """Compute the shares of unseen tokens and pairs and of usual tokens; nothing in the first steps."""
        if tokens.rollouts.token_ids is None:
            return {}
        library, counted = tokens.library, tokens.layout.counted
        ids = tokens.take(tokens.rollouts.token_ids)
        bins = ids & (BINS - 1)
        pairs, is_whole = hash_ngrams(tokens, ids, 2)
        pairs = tokens.xp.where(is_whole, pairs & (PAIR_BINS - 1), PAIR_BINS)
        if self._pairs is None:
            self._pairs = library.make_flags(PAIR_BINS + 1)
        if self._steps < FIRST_STEPS:
            self._steps += 1
            self._counts = self._counts + library.sum_by(counted, bins, BINS)
            self._pairs[pairs] = True
            return {}
        if self._tables is None:
            self._tables = _tables(tokens, self._counts)
        has_any, is_seen, is_usual = self._tables
        whole = library.count(counted)
        unseen_pairs = library.count(is_whole & ~self._pairs[pairs])
        shares = {
            "text/unseen_frac": share(library.count(counted & ~is_seen[bins]), whole),
            "text/usual_frac": share(library.count(counted & is_usual[bins]), whole),
            "text/unseen_pairs_frac": share(unseen_pairs, library.count(is_whole)),
        }
        return only_if(library, has_any, shares)

    def state(self) -> dict[str, Any]:
        """Return the tokens noted so far as plain numbers, so that a run on the host can be continued."""
        counted = {} if self._steps == 0 else {int(place): float(self._counts[place]) for place in self._nonzero()}
        pairs = [] if self._pairs is None else HOST.select_places(self._pairs[:PAIR_BINS]).tolist()
        return {"steps": self._steps, "counts": counted, "pairs": pairs}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        # An earlier version noted no pairs, so every pair would count as unseen; the reference is then made anew.
        if "pairs" not in state:
            return
        self._steps, self._tables = state["steps"], None
        self._counts = HOST.xp.zeros(BINS)
        for place, count in state["counts"].items():
            self._counts[place] = count
        self._pairs = HOST.xp.zeros(PAIR_BINS + 1, bool)
        self._pairs[state["pairs"]] = True

    def _nonzero(self) -> Array:
        return HOST.select_places(self._counts > 0)


def _tables(tokens: ActionTokens, counts: Array) -> tuple[Array, Array, Array]:
    """Return whether there are counts, which bins have one, and the most frequent bins that make up half of them."""
    xp, total = tokens.xp, counts.sum()
    descending = -tokens.library.sort(-counts)
    # Of whole numbers, because on CUDA torch refuses a running sum of floats in deterministic mode.
    rank = (xp.cumsum(tokens.library.to_integers(descending), axis=0) < total / 2).sum()
    return total > 0, counts > 0, (counts > 0) & (counts >= xp.take(descending, rank))
