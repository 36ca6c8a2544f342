"""Exact match of answers after the usual normalisation of reading comprehension."""

import re
import string
from collections.abc import Iterable

__all__ = ["exact_match", "normalise"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """Normalise an answer: lower case, no punctuation, no English articles, single spaces between words.

    Reference:
        Rajpurkar et al., SQuAD (arXiv 1606.05250), the evaluation of exact match.
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golden_answers: Iterable[str]) -> bool:
    """Return whether an answer is one of the golden ones, both normalised."""
    given = normalise(answer)
    return any(given == normalise(golden) for golden in golden_answers)
