"""Exact match of answers after the normalisation that reading comprehension has settled on."""

import re
import string
from collections.abc import Iterable

__all__ = ["exact_match", "normalised"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """Give an answer in lower case without punctuation and English articles, single spaces between words.

    Reference:
        Rajpurkar et al., SQuAD (arXiv 1606.05250), the evaluation of exact match.
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golden_answers: Iterable[str]) -> bool:
    """Tell whether an answer is one of the golden ones, both normalised."""
    given = normalised(answer)
    return any(given == normalised(golden) for golden in golden_answers)
