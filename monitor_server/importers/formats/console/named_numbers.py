"""What all forms of console output share: how numbers, their names and an evaluation are recognised."""

import re

from monitor_server.importers.signal_names import is_known, signal_of

__all__ = [
    "CONFIGURED",
    "COUNT",
    "EVALUATION",
    "GROUPED",
    "NAMED",
    "NUMBER",
    "QUALIFIERS",
    "STEP_NAMES",
    "NamedNumbers",
    "is_evaluation",
    "read_count",
    "word_before",
]

NUMBER = r"[-+]?(?:\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?))"
# A number in a text for people, with all its commas, so that 0,5 is not read as 0; see `ungrouped`.
GROUPED = NUMBER + r"(?:(?:,\d+)+(?:\.\d*)?)?(?![\w.]|,\d)"
# What a trainer counts beside steps: "step=1,250 tokens" is step 1 and 250 tokens.
_COUNTED = r"\s(?:tokens|samples|examples|prompts|responses|completions|episodes|rollouts|ms|s|sec|seconds)"
# The number of a step or of all steps, which f"{step:,}" or f"{step:_}" may have grouped.
COUNT = rf"(?:\d{{1,3}}(?:[,_]\d{{3}}){{1,4}}(?!\d|{_COUNTED}(?![\w./-]|\s*[=:\d]))|\d{{1,15}})"
NAMED = re.compile(r"(?<![\w./-])([A-Za-z][\w./-]{0,60})\s*[=:]\s*(" + GROUPED + r")(%?)")
EVALUATION = re.compile(
    r"(?<![\w./-])(?:eval|evaluat(?:e|ed|ing|ion)|val|valid|validat(?:e|ed|ing|ion))(?![\w./-])", re.IGNORECASE
)
STEP_NAMES = ("step", "global_step", "steps", "global_steps", "iter", "iteration")
CONFIGURED = ("learning_rate", "lr")  # a configuration contains these beside its number of steps

# Words that make another number of the name after them: "best reward=0.9", "target kl: 0.01", "value loss=3".
QUALIFIERS = frozenset({
    "best", "max", "min", "maximum", "minimum", "median", "std", "target", "old", "ref", "reference", "initial",
    "final", "last", "prev", "previous", "eval", "evaluation", "val", "validation", "test", "dev",
    "value", "critic", "vf", "baseline",
})  # fmt: skip
_WORD_BEFORE = re.compile(r"(?<![\w./-])([A-Za-z][A-Za-z_]*) $")
LONGEST_WORD = 24  # with the blank after it


class NamedNumbers:
    """Collects the numbers of one step.

    A word before a name belongs to it if both together are the name of a signal, as in ``policy loss=0.1`` or
    ``{'actor': {'grad_norm': 1.0}}``. A word such as ``best`` or ``value`` makes another number of the name. Any other
    word may be one of a sentence, as in ``done reward=0.5``. Such a number counts if the step has neither the signal
    without such a word nor the name with another one.

    Args:
        separator: What stands between a word and a name.
    """

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._doubtful: dict[str, dict[str, object]] = {}  # by name, and by the word before it
        self._row: dict[str, object] = {}

    def add(self, word: str, name: str, value: object) -> None:
        """Add a number; of two with the same word and name, the first counts."""
        whole = f"{word}{self._separator}{name}" if word else name
        if word and not is_known(whole) and QUALIFIERS.isdisjoint(word.lower().split(self._separator)):
            self._doubtful.setdefault(name, {}).setdefault(whole, value)
        else:
            self._row.setdefault(whole, value)

    def row(self) -> dict[str, object]:
        """Return the numbers by name; those that are no signals have their word before it."""
        row = dict(self._row)
        signals = {signal for key in row if (signal := signal_of(key)) is not None}
        for name, values in self._doubtful.items():
            is_sure = len(values) == 1 and name not in row and signal_of(name) not in signals
            for whole, value in values.items():
                row.setdefault(name if is_sure else whole, value)
        return row


def word_before(text: str, place: int) -> str:
    """Return the word before a name that begins at a place of a line; empty without one.

    >>> word_before("step=3 value loss=2", 13), word_before("step=3 loss=2", 7)
    ('value', '')
    """
    if not text[max(0, place - 2) : place - 1].isalpha():  # most names follow a number or a comma
        return ""
    found = _WORD_BEFORE.search(text[max(0, place - LONGEST_WORD) : place])
    return found[1] if found else ""


def is_evaluation(text: str) -> bool:
    """Return whether the text before the numbers of a line says that they are those of an evaluation.

    >>> is_evaluation("[eval] step 3: "), is_evaluation("evaluator.py:12 step 3: ")
    (True, False)
    """
    return "val" in text.lower() and EVALUATION.search(text) is not None


def read_count(text: str) -> int:
    """Return a number that `COUNT` has found."""
    return int(text.replace(",", ""))
