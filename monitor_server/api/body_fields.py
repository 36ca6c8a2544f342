"""The types of fields that the bodies of several routes have."""

from typing import Annotated

from pydantic import Field

from monitor_server.text_safety.patterns import WITHOUT_NUL

__all__ = ["By", "Note", "Text"]

Text = Annotated[str, Field(min_length=1, max_length=200, pattern=WITHOUT_NUL)]
By = Text
Note = Annotated[str, Field(max_length=2000, pattern=WITHOUT_NUL)]
