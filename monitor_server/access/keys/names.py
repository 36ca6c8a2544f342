"""States which names people and keys may have, so that nobody can sign as the collector or as somebody else."""

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
"""Who else is named as an author in the audit log and in the history of alerts."""
# Keys, variables, authors with a part that differs, the ids of keys, and "what they call themselves (name)".
RESERVED_FORM: Final = re.compile(r"rlv_.*|rlvitals_.*|link sent to .*|.* on the machine|[0-9a-f]{16}|.*\(.*\)")
# Letters and symbols that are drawn as nothing.
INVISIBLE: Final = dict.fromkeys(map(ord, "\u115f\u1160\u2800\u3164\uffa0"))


def fold_name(name: str) -> str:
    """Return a text that is equal for names that differ only in case, width, accents, or what cannot be seen.

    Letters of several alphabets that look alike stay different.
    """
    decomposed = unicodedata.normalize("NFKD", name).casefold().translate(INVISIBLE)
    visible = (character for character in decomposed if unicodedata.category(character) not in _UNSEEN)
    return " ".join("".join(visible).split())


def is_reserved(name: str) -> bool:
    """Whether a name is that of an author who is no person and no key, or could be read as another one's."""
    folded = fold_name(name)
    return not folded or folded in RESERVED or RESERVED_FORM.fullmatch(folded) is not None


_UNSEEN: Final = frozenset({"Mn", "Me", "Cf", "Cc"})
