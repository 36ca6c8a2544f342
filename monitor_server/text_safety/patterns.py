"""Patterns for text from outside that is stored."""

from typing import Final

__all__ = ["HIDDEN", "ONE_LINE", "ONE_SHOWN_LINE", "WITHOUT_NUL"]

WITHOUT_NUL: Final = r"^[^\x00]*$"  # PostgreSQL stores no other text
# Characters of a class that end a line, are not shown, or turn the text that follows around. Two that join the parts of
# letters and emoji are not among them.
HIDDEN: Final = r"\x00-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
ONE_LINE: Final = rf"^[^{HIDDEN}]*$"
_SHOWN = rf"[^\s{HIDDEN}\u115f\u1160\u180e\u200c\u200d\u2800\u3164\uffa0]"
ONE_SHOWN_LINE: Final = rf"^[^{HIDDEN}]*{_SHOWN}[^{HIDDEN}]*$"
"""Of a name that people choose from a list: one character at least can be seen."""
