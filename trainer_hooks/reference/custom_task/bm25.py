"""A local corpus searched by BM25."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainer_hooks.reference.custom_task.json_lines import FileError, read_lines, text_of

__all__ = ["Bm25Corpus"]

# Where JAX is installed, bm25s starts it when it is imported, and JAX reserves three quarters of a GPU's memory.
if "jax" not in sys.modules:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
import bm25s

_WORDS = r"(?u)\b\w+\b"


class Bm25Corpus:
    """Passages in memory with their index.

    Args:
        passages: Texts to find.
        topk: The largest number of passages that a query returns.
    """

    def __init__(self, passages: Sequence[str], topk: int) -> None:
        self._passages = list(passages)
        self._topk = min(topk, len(self._passages))
        self._index = bm25s.BM25()
        self._index.index(_words(self._passages), show_progress=False)

    @classmethod
    def from_file(cls, path: Path, *, topk: int) -> "Bm25Corpus":
        """Read a corpus, one JSON object with ``contents`` a line, other fields left alone, and index it.

        Raises:
            FileError: If a line is not such an object, or no passage contains a word.
        """
        passages = [text_of(place, row, "contents") for place, row in read_lines(path)]
        if not any(_words(passages)):
            raise FileError(f"{path} must hold at least one passage with a word")
        return cls(passages, topk)

    def search(self, queries: Sequence[str]) -> list[list[str]]:
        """Find passages for each query, best first; a passage that shares no word with the query is not returned."""
        if not queries:
            return []
        numbers, scores = self._index.retrieve(
            _words(queries), k=self._topk, show_progress=False, backend_selection="numpy"
        )
        return [
            [self._passages[number] for number in row[found]]
            for row, found in zip(np.asarray(numbers), np.asarray(scores) > 0, strict=True)
        ]


def _words(texts: Sequence[str]) -> list[list[str]]:
    words: list[list[str]] = bm25s.tokenize(
        list(texts), token_pattern=_WORDS, stopwords=[], return_ids=False, show_progress=False
    )
    return words
