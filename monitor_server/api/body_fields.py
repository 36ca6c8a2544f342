"""The types of fields that the bodies of several routes have."""

import re
from typing import Annotated, Any, LiteralString

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from monitor_server.text_safety.patterns import ONE_LINE, ONE_SHOWN_LINE, WITHOUT_NUL

__all__ = ["By", "Note", "ShownName", "Text"]


def _matching(pattern: str, rule: LiteralString) -> list[Any]:
    """Return what makes a field match a pattern, which is in the description of the API, and its error say the rule."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise PydanticCustomError("hidden_characters", rule)
        return text

    return [Field(json_schema_extra={"pattern": pattern}), AfterValidator(check)]


_PLAIN: LiteralString = (
    "must be one line of characters that can be seen: no line breaks, no control characters, no marks of direction"
)

Text = Annotated[str, Field(min_length=1, max_length=200, pattern=WITHOUT_NUL)]
By = Annotated[str, Field(min_length=1, max_length=200), *_matching(ONE_LINE, _PLAIN)]
Note = Annotated[str, Field(max_length=2000, pattern=WITHOUT_NUL)]
ShownName = Annotated[str, Field(max_length=100), *_matching(ONE_SHOWN_LINE, _PLAIN), AfterValidator(str.strip)]
