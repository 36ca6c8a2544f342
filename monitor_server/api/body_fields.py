"""The types of fields that the bodies of several routes have."""

from typing import Annotated

from pydantic import Field

__all__ = ["STORABLE", "By", "Note"]

# PostgreSQL stores no NUL.
STORABLE = r"^[^\x00]*$"

By = Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE)]
Note = Annotated[str, Field(max_length=2000, pattern=STORABLE)]
