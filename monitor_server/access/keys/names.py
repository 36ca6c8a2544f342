"""Defines the allowed names of people and keys, so that no author can appear as the collector or as another author."""

import re
import unicodedata
from typing import Final

__all__ = ["fold_name", "is_reserved"]

RESERVED: Final = frozenset(
    {
        "collector",
        "configuration",
        "first start",
        "openid connect",
        "retention",
        "rlvitals",
        "somebody",
        "the collector",
        "the trainer",
        "whoever wrote the file",
    }
)
"""The other authors in the audit log and in the history of alerts."""
# Keys, variables, authors with a variable part, the ids of keys, and the form "given name (name)".
RESERVED_FORM: Final = re.compile(r"rlv_.*|rlvitals_.*|link sent to .*|.* on the machine|[0-9a-f]{16}|.*\(.*\)")
# Letters and symbols that are invisible.
INVISIBLE: Final = dict.fromkeys(map(ord, "\u115f\u1160\u2800\u3164\uffa0"))


def fold_name(name: str) -> str:
    """Return a text that is equal for names that differ only in case, width, accents, or invisible characters.

    Similar letters of different alphabets stay different.
    """
    decomposed = unicodedata.normalize("NFKD", name).casefold().translate(INVISIBLE)
    visible = (character for character in decomposed if unicodedata.category(character) not in _UNSEEN)
    return " ".join("".join(visible).split())


def is_reserved(name: str) -> bool:
    """Whether a name is that of an author other than a person or a key, or could be read as one."""
    folded = fold_name(name)
    return not folded or folded in RESERVED or RESERVED_FORM.fullmatch(folded) is not None


_UNSEEN: Final = frozenset({"Mn", "Me", "Cf", "Cc"})
