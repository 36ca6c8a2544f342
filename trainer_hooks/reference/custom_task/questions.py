"""Question sets in the form of NQ (``golden_answers``) or HotpotQA (``answer``), one JSON object a line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer_hooks.reference.custom_task.json_lines import FileError, read_lines, text_of
from trainer_hooks.text_safety import encodable

__all__ = ["TextQuestion", "read_questions"]


@dataclass(frozen=True, slots=True)
class TextQuestion:
    """A question with every answer that counts as right, and the place in the file where it was read."""

    question: str
    golden_answers: tuple[str, ...]
    place: str


def read_questions(path: Path) -> list[TextQuestion]:
    """Read a question set.

    Each line holds ``question`` and ``golden_answers`` or else ``answer``, which is a text or a list of texts; other
    fields are ignored.

    Raises:
        FileError: If a line has another form; the message names file, line and field.
    """
    return [
        TextQuestion(text_of(place, row, "question"), _answers(place, row), place) for place, row in read_lines(path)
    ]


def _answers(place: str, row: dict[str, Any]) -> tuple[str, ...]:
    field = "golden_answers" if "golden_answers" in row else "answer"
    if isinstance(row.get(field), list):
        found = row[field]
        if not found or not all(isinstance(answer, str) and answer.strip() for answer in found):
            raise FileError(f"{place}: field {field!r} must hold at least one text and only texts, got {found!r}")
        return tuple(map(encodable, found))
    return (text_of(place, row, field),)
