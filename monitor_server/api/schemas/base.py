"""The base of all answers, which are frozen and write numbers that are not finite as text, and that of all bodies."""

from enum import StrEnum
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, FiniteFloat, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core.core_schema import CoreSchema, ModelSchema, enum_schema, union_schema

from monitor_server.text_safety.field_constraints import refuse_many_fields

__all__ = ["Body", "NotFinite", "Schema", "Time"]

Time = FiniteFloat
"""Seconds since the epoch. As any `FiniteFloat` of an answer, it is described as a number alone."""


class NotFinite(StrEnum):
    """The text of a number that is not finite, which JSON cannot express."""

    NAN = "NaN"
    INFINITY = "Infinity"
    MINUS_INFINITY = "-Infinity"


# By its reference, all fields share one shape.
_NOT_FINITE = enum_schema(NotFinite, list(NotFinite), sub_type="str", ref=NotFinite.__name__)


class Schema(BaseModel):
    """Base of all shapes of answers."""

    model_config = ConfigDict(ser_json_inf_nan="strings", frozen=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the texts of numbers that are not finite, which pydantic writes and does not describe."""
        if handler.mode == "serialization":
            model = cast("ModelSchema", core_schema)
            core_schema = {**model, "schema": _add_not_finite(model["schema"])}
        return handler(core_schema)


class Body(BaseModel):
    """Base of the bodies of requests; a field that is not known is refused."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, given: Any) -> Any:  # noqa: ANN401 - anything a client sends
        return refuse_many_fields(given)


def _add_not_finite(part: Any) -> Any:  # noqa: ANN401 - any part of a core schema
    """Return a part of the schema of a model in which each number may also be the text of one that is not finite."""
    if isinstance(part, list):
        return [_add_not_finite(each) for each in part]
    if not isinstance(part, dict) or part.get("type") in ("model", "dataclass"):
        return part
    if part.get("type") == "float" and part.get("allow_inf_nan", True):
        return union_schema([part, _NOT_FINITE])
    return {name: _add_not_finite(each) for name, each in part.items()}
