"""The types of fields that the bodies of several routes have."""

from typing import Annotated

from pydantic import AfterValidator, Field

from monitor_server.text_safety.field_constraints import IN_LINES, IN_ONE_LINE, SHOWN_IN_ONE_LINE
from monitor_server.text_safety.patterns import WITHOUT_NUL

__all__ = ["By", "Comment", "Note", "ShortNote", "ShownName", "Text"]

Text = Annotated[str, Field(min_length=1, max_length=200, pattern=WITHOUT_NUL)]
"""The name of an object that exists already, such as a project that a trainer has named: it may be any text."""
By = Annotated[str, Field(min_length=1, max_length=200), *IN_ONE_LINE]
Note = Annotated[str, Field(max_length=2000), *IN_LINES]
ShortNote = Annotated[str, Field(max_length=300), *IN_ONE_LINE, AfterValidator(str.strip)]
Comment = Annotated[str, Field(min_length=1, max_length=2000), *IN_LINES]
ShownName = Annotated[str, Field(max_length=100), *SHOWN_IN_ONE_LINE, AfterValidator(str.strip)]
