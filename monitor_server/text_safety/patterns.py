"""Patterns for text from outside that is stored."""

from typing import Final

__all__ = ["HIDDEN", "LINES", "NOT_IN_LINES", "ONE_LINE", "ONE_SHOWN_LINE", "WITHOUT_NUL"]

WITHOUT_NUL: Final = r"^[^\x00]*$"  # PostgreSQL stores no NUL
# Classes of characters. The two characters that join the parts of letters and emoji are in none of them.
_LINE_ENDS: Final = r"\t\n\r"
_CONTROLS: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_TURNING: Final = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # these turn the direction of the following text
_UNSEEN: Final = r"\xad\u200b\u2028\u2029\u2060-\u2065\ufeff"
HIDDEN: Final = rf"{_LINE_ENDS}{_CONTROLS}{_TURNING}{_UNSEEN}"
NOT_IN_LINES: Final = rf"{_CONTROLS}{_TURNING}"
ONE_LINE: Final = rf"^[^{HIDDEN}]*$"
LINES: Final = rf"^[^{NOT_IN_LINES}]*$"
"""For a text of several lines, in which some languages need invisible marks between words."""
_SHOWN = rf"[^\s{HIDDEN}\u115f\u1160\u180e\u200c\u200d\u2800\u3164\uffa0]"
ONE_SHOWN_LINE: Final = rf"^[^{HIDDEN}]*{_SHOWN}[^{HIDDEN}]*$"
"""For a name that people choose from a list: at least one character is visible."""
