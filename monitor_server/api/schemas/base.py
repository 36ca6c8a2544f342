"""The base of all answers, which are frozen and write numbers that are not finite as text, and that of all bodies."""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from monitor_server.text_safety.field_constraints import refuse_many_fields

__all__ = ["Body", "Schema"]


class Schema(BaseModel):
    """Base of all shapes of answers."""

    model_config = ConfigDict(ser_json_inf_nan="strings", frozen=True)


class Body(BaseModel):
    """Base of the bodies of requests; a field that is not known is refused."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, given: Any) -> Any:  # noqa: ANN401 - anything a client sends
        return refuse_many_fields(given)
