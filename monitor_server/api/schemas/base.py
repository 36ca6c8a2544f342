"""The base of all answers, which are frozen and write numbers that are not finite as text."""

from pydantic import BaseModel, ConfigDict

__all__ = ["Schema"]


class Schema(BaseModel):
    """Base of all shapes of answers."""

    model_config = ConfigDict(ser_json_inf_nan="strings", frozen=True)
