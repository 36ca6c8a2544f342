"""The definition of a rule, and the check of a rule that a person writes: every problem is reported with its place.

A rule has structured fields only. No text of a rule is ever evaluated as code.
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from monitor_server.durations import DAY_SECONDS
from monitor_server.errors import InvalidField
from monitor_server.rules.problems import describe_problems
from monitor_server.text_safety.field_constraints import find_hidden, find_unclean, refuse_many_fields

__all__ = [
    "LONGEST_NAME",
    "MAX_ALL_RULES",
    "MAX_COMPARISONS",
    "MAX_RULES",
    "NOT_FINITE",
    "AbsenceRule",
    "ChangeRule",
    "ComparisonRule",
    "Measure",
    "Name",
    "Operator",
    "Rule",
    "ThresholdRule",
    "WordedRule",
    "WrittenRule",
    "read_rule",
]

MAX_RULES: Final = 100
"""The largest number of rules of one project with its runs, and of rules that apply to all projects."""
MAX_ALL_RULES: Final = 2_000
"""The largest number of rules of a collector."""
MAX_COMPARISONS: Final = 10
"""The largest number of comparisons among the rules of one project with its runs. Each comparison reads another run at
every step: one row, with all its signals."""
LONGEST_NAME: Final = 60
NOT_FINITE: Final = "not_finite"
LONGEST_SECONDS: Final = 366 * DAY_SECONDS
MOST_STEPS: Final = 1_000_000_000

_NAME: Final = rf"[a-z0-9][a-z0-9._-]{{0,{LONGEST_NAME - 1}}}"
_NAME_WORDS: Final = (
    f"must be at most {LONGEST_NAME} lower-case letters, digits and . _ -, the first a letter or a digit"
)
Operator = Literal[">", ">=", "<", "<=", "==", "!=", "not_finite"]
Measure = Literal["difference", "relative", "ratio"]
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Message = Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
Steps = Annotated[int, Field(ge=0, le=MOST_STEPS)]
Seconds = Annotated[float, Field(ge=0, le=LONGEST_SECONDS, allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False)]


def _must_be_name(given: str) -> str:
    if not re.fullmatch(_NAME, given):
        raise PydanticCustomError("name", _NAME_WORDS)
    return given


# Pydantic would show its own pattern to the person who wrote the name.
Name = Annotated[str, AfterValidator(_must_be_name), Field(json_schema_extra={"pattern": f"^{_NAME}$"})]


class _Rule(BaseModel):
    """The fields of all rules."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[Name, Field(description="Lower-case letters, digits and . _ -; the kind of the alert is rule:NAME")]
    project: Annotated[Text | None, Field(description="The only project of the rule; by default, every project")] = None
    run_id: Annotated[
        Text | None, Field(description="The only run of the rule; by default, every run of the project")
    ] = None
    enabled: bool = True
    severity: Literal["warning", "critical"] = "warning"
    message: Annotated[Message, Field(description="Text at the beginning of the alert")] = ""
    signal: Annotated[Text, Field(description="The signal that is watched")]
    for_steps: Annotated[Steps | None, Field(description="Steps for which the condition must hold")] = None
    for_seconds: Annotated[
        Seconds | None, Field(description="Instead of for_steps: seconds, by the times of the steps")
    ] = None

    @model_validator(mode="after")
    def _has_one_duration(self) -> "_Rule":
        if self.for_steps is not None and self.for_seconds is not None:
            raise ValueError("at most one of for_steps and for_seconds must be set, got both")
        return self


class _Numeric(_Rule):
    """The fields of rules that compare a number with a value."""

    operator: Operator
    value: Annotated[
        Number | None, Field(description="Required, except with the operator not_finite, which has no value")
    ] = None

    @model_validator(mode="after")
    def _has_value(self) -> "_Numeric":
        if self.operator == NOT_FINITE and self.value is not None:
            raise ValueError("value must be left out with the operator not_finite")
        if self.operator != NOT_FINITE and self.value is None:
            raise ValueError(f"value must be set with the operator {self.operator}")
        return self


class ThresholdRule(_Numeric):
    """A signal is above or below a value."""

    condition: Literal["threshold"]


class ChangeRule(_Numeric):
    """A signal has changed, compared with its own value some steps or some time before."""

    condition: Literal["change"]
    measure: Annotated[Measure, Field(description="How two values x and y are compared: x-y, (x-y)/|y| or x/y")] = (
        "difference"
    )
    before_steps: Annotated[
        int | None, Field(ge=1, le=MOST_STEPS, description="Distance of the earlier value, in steps")
    ] = None
    before_seconds: Annotated[
        float | None,
        Field(
            gt=0,
            le=LONGEST_SECONDS,
            allow_inf_nan=False,
            description="Instead of before_steps: distance of the earlier value, in seconds",
        ),
    ] = None

    @model_validator(mode="after")
    def _has_one_distance(self) -> "ChangeRule":
        if (self.before_steps is None) == (self.before_seconds is None):
            raise ValueError("exactly one of before_steps and before_seconds must be set")
        return self


class AbsenceRule(_Rule):
    """A signal is not recorded for some steps or some time."""

    condition: Literal["absence"]

    @model_validator(mode="after")
    def _has_duration(self) -> "AbsenceRule":
        if not self.for_steps and not self.for_seconds:
            raise ValueError(
                "one of for_steps and for_seconds must be set, and larger than 0: the length of the absence"
            )
        return self


class ComparisonRule(_Numeric):
    """A signal differs from that of another run of the same project at the same step."""

    condition: Literal["comparison"]
    measure: Annotated[Measure, Field(description="How two values x and y are compared: x-y, (x-y)/|y| or x/y")] = (
        "difference"
    )
    other_run_id: Annotated[Text, Field(description="The other run of the comparison")]
    other_signal: Annotated[
        Text | None, Field(description="The signal of the other run; by default, the same signal")
    ] = None

    @model_validator(mode="after")
    def _is_in_a_project(self) -> "ComparisonRule":
        if self.project is None and self.run_id is None:
            raise ValueError("a comparison needs project or run_id: the other run belongs to the same project")
        if self.run_id == self.other_run_id:
            raise ValueError("other_run_id must be another run than run_id")
        return self


Rule = Annotated[ThresholdRule | ChangeRule | AbsenceRule | ComparisonRule, Field(discriminator="condition")]


def _refuse_hidden(rule: Rule) -> Rule:
    if problem := find_hidden(rule.message):
        raise ValueError(f"message {problem}")
    for field in ("project", "signal", "other_signal"):
        name = getattr(rule, field, None)
        # A trainer cannot send such a name, so that the rule would wait for it for ever.
        if name is not None and (problem := find_unclean(name)):
            raise ValueError(f"{field} {problem}")
    return rule


WrittenRule = Annotated[Rule, AfterValidator(_refuse_hidden)]
"""A rule that a person may write. A stored rule is read without this check of its texts."""


def _in_words(given: Any, validate: ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401 - anything a client sends
    try:
        return validate(refuse_many_fields(given))
    except ValidationError as error:
        words = "; ".join(describe_problems(error)[:5])
        raise PydanticCustomError("rule", "{words}", {"words": words}) from None


WordedRule = Annotated[WrittenRule, WrapValidator(_in_words)]
"""A rule in a body of the API. Its problems are described in our words, and not in pydantic's."""

_RULE: TypeAdapter[Rule] = TypeAdapter(Rule)


def read_rule(document: object, *, place: str = "") -> Rule:
    """Return a rule from its fields.

    Args:
        document: The value from a file or the database.
        place: Its place in the document, with which an error message begins.

    Raises:
        InvalidField: If it is not a rule; the message names every wrong field, and the condition that must hold.
    """
    try:
        return _RULE.validate_python(document)
    except ValidationError as error:
        raise InvalidField("; ".join(describe_problems(error, place=place)[:5])) from None
    except OverflowError:
        raise InvalidField(f"{place or 'the rule'}: every number must fit a double") from None
