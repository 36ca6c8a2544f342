"""Makes text from elsewhere safe for a terminal."""

__all__ = ["printable"]


def printable(text: object) -> str:
    r"""Return a text with every character that is not printable written as an escape.

    Control characters would let a run's name or a note move the cursor, set the window's title or forge lines. Line
    ends, the C1 controls, direction marks and lone surrogates are escaped as well: ``"a\x1b[2J"`` becomes
    ``"a\\x1b[2J"``.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in shown
    )
