"""Defines the fields of a new key, for the command line and for the API."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from monitor_server.access.callers import Scope
from monitor_server.text_safety.field_constraints import SHOWN_IN_ONE_LINE

__all__ = ["NewKey"]

Name = Annotated[str, Field(min_length=1, max_length=200), *SHOWN_IN_ONE_LINE]


class NewKey(BaseModel):
    """The name and the permissions of a new key."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    scope: Scope
    project: Annotated[
        Annotated[Name, AfterValidator(str.strip)] | None,
        Field(description="The only project that the key may access; without it, all projects"),
    ] = None
    days: Annotated[
        float | None,
        Field(gt=0, le=36_500, strict=True, description="Days until the key expires; without them, it never expires"),
    ] = None
