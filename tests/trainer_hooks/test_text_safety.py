"""Texts that come from elsewhere, in logs and messages."""

from trainer_hooks.text_safety import describe_error, describe_object, printable


class Unreadable(Exception):  # noqa: N818 - it stands for any object
    """An object and an error of the user's that has no text."""

    def __str__(self):
        raise ValueError("no text")

    def __repr__(self):
        raise ValueError("no representation")


def test_an_object_that_cannot_be_shown_is_named_by_its_class():
    """A class of the user may raise at any access."""
    assert describe_object(Unreadable()) == "a Unreadable that cannot be shown"
    assert describe_error(Unreadable()) == "(its text cannot be read)"


def test_texts_of_objects_and_errors_are_cut():
    """An array of a million numbers does not fill a log."""
    assert describe_object("x" * 1_000_000) == "'" + "x" * 79
    assert describe_error(ValueError("x" * 1_000_000)) == "x" * 2_000


def test_what_steers_a_terminal_is_escaped():
    """Line breaks and control characters of the collector's texts stay in their line."""
    assert printable("é\n\x1b[2J") == "é\\n\\x1b[2J"
