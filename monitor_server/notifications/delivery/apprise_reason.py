"""The reason that Apprise logs for a failed delivery, without its secrets."""

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import unquote, unquote_plus

from monitor_server.text_safety.printable import printable

__all__ = ["spell_reason"]

HIDDEN: Final = "***"
LONGEST: Final = 300
SHORTEST_PIECE: Final = 3  # shorter pieces are part of any text
_BETWEEN = re.compile(r"[/:@?&=#,;+\s]+")
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://\S+")
_TOKEN = re.compile(r"(?=[\w+=-]*\d)(?=[\w+=-]*[A-Za-z])[\w+=-]{20,}", re.ASCII)


def spell_reason(lines: Sequence[str], url: str) -> str:
    """Return Apprise's log lines as one line, or an empty text if it has logged nothing.

    Services repeat their input in errors. So every part of the address is hidden, and every text that looks like an
    address or a token.

    Args:
        lines: The warnings and errors of Apprise.
        url: The address of the channel.
    """
    text = "; ".join(dict.fromkeys(line.strip() for line in lines))
    text = _ADDRESS.sub(rf"\1://{HIDDEN}", text)
    pieces = {piece for piece in _pieces(url) if len(piece) >= SHORTEST_PIECE}
    for piece in sorted(pieces, key=len, reverse=True):
        # Parts of words are not hidden: a topic named "end" would hide a part of "send".
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(piece)}(?![A-Za-z0-9])", HIDDEN, text, flags=re.IGNORECASE)
    return printable(_TOKEN.sub(HIDDEN, text), longest=LONGEST)


def _pieces(url: str) -> Iterator[str]:
    """Yield user, password, host, port, parts of the path and values of the query, both as written and as sent."""
    address, _, query = url.partition("://")[2].partition("?")
    for part in (*re.split(r"[/:@#]", address), *(each.partition("=")[2] for each in query.split("&"))):
        for written in (part, unquote(part), unquote_plus(part)):
            yield written
            yield from _BETWEEN.split(written)
