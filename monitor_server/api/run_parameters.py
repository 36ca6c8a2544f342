"""The parameters of lists of runs: the selection and the order."""

import re
from typing import Annotated, Final, Literal, cast

from fastapi import Depends, Query
from pydantic import AfterValidator, Field, WithJsonSchema

from monitor_server.api.dependencies import Asking
from monitor_server.api.schemas import Status
from monitor_server.detection.protocol import Phase
from monitor_server.store.repositories.run_filter import Condition, RunFilter, Sorting
from monitor_server.store.repositories.run_order import NUMBERS, SORTED_BY, TEXTS

__all__ = ["Closed", "GroupedBy", "Offset", "Sort", "Wanted"]

MAX_TEXT: Final = 200  # letters
MAX_WORDS: Final = 10  # each is searched for in every run
MAX_CONDITIONS: Final = 8
MAX_SORTED: Final = 4
MAX_CLOSED: Final = 100
NUMBER: Final = r"-?[0-9]{1,17}(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?"  # every such number is finite

# For the OpenAPI document; the functions below refuse other text with a message.
SORTING: Final = f"({'|'.join(SORTED_BY)})(:(asc|desc)?)?"
SORT: Final = f"^{SORTING}(,{SORTING}){{0,{MAX_SORTED - 1}}}$"
WHERE: Final = rf"^(({'|'.join(TEXTS)}):contains:[^\x00]{{1,{MAX_TEXT}}}|({'|'.join(NUMBERS)}):(above|below):{NUMBER})$"
WORDS: Final = rf"^\s*(\S+(\s+\S+){{0,{MAX_WORDS - 1}}}\s*)?$"

GroupedBy = Literal["project", "phase", "status", "setting", "tag", "owner"]
Offset = Annotated[int, Query(ge=0, le=1_000_000, description="Number of items to skip at the beginning")]


async def _read_closed(
    closed: Annotated[
        list[Annotated[str, Field(max_length=MAX_TEXT)]] | None,
        Query(
            max_length=MAX_CLOSED,
            description="Names of groups whose runs are left out; an empty name for the runs without a value",
        ),
    ] = None,
) -> list[str]:
    return closed or []


Closed = Annotated[list[str], Depends(_read_closed)]


def read_sort(stated: str) -> str:
    """Check that a text is a valid order; raise ValueError with the condition that must hold."""
    parts = stated.split(",")
    if len(parts) > MAX_SORTED:
        raise ValueError(f"at most {MAX_SORTED} columns can be sorted by, got {len(parts)}")
    for part in parts:
        column, _, direction = part.partition(":")
        if column not in SORTED_BY or direction not in {"", "asc", "desc"}:
            raise ValueError(
                "must be columns, each followed by :asc, :desc or nothing, such as urgency or reward:desc,name; "
                f"got {part!r}; the columns are {', '.join(SORTED_BY)}"
            )
    return stated


def read_condition(stated: str) -> str:
    """Check that a text is a valid condition; raise ValueError with the requirement."""
    column, _, rest = stated.partition(":")
    operator, _, value = rest.partition(":")
    if column in TEXTS and operator == "contains" and 0 < len(value) <= MAX_TEXT:
        return stated
    if column in NUMBERS and operator in {"above", "below"} and re.fullmatch(NUMBER, value):
        return stated
    raise ValueError(
        f"must be COLUMN:contains:TEXT (of at most {MAX_TEXT} letters), COLUMN:above:NUMBER or COLUMN:below:NUMBER, "
        f"such as reward:above:0.5; got {stated[:MAX_TEXT]!r}; texts are {', '.join(TEXTS)}; "
        f"numbers are {', '.join(NUMBERS)}"
    )


def read_words(stated: str) -> str:
    """Check that a text has few words; raise ValueError with the requirement."""
    if len(words := stated.split()) > MAX_WORDS:
        raise ValueError(f"must have at most {MAX_WORDS} words, got {len(words)}")
    return stated


async def _sort(
    sort: Annotated[
        str | None,
        Query(
            description="Columns, such as `urgency` or `reward:desc,name`; by default, the newest runs first",
            json_schema_extra={"pattern": SORT},
        ),
        AfterValidator(lambda stated: None if stated is None else read_sort(stated)),
    ] = None,
) -> list[Sorting]:
    parts = [part.partition(":") for part in sort.split(",")] if sort else []
    return [Sorting(column, direction == "desc") for column, _, direction in parts]


Sort = Annotated[list[Sorting], Depends(_sort)]


Where = Annotated[str, AfterValidator(read_condition), WithJsonSchema({"type": "string", "pattern": WHERE})]


async def _wanted_runs(
    *,
    asking: Asking,
    project: str | None = None,
    owner: Annotated[
        str | None,
        Query(max_length=MAX_TEXT, description="Only runs of this owner, which is NAME of the tag `owner:NAME`"),
    ] = None,
    tag: Annotated[str | None, Query(max_length=MAX_TEXT)] = None,
    status: Annotated[list[Status] | None, Query(max_length=5, description="Only runs with one of these")] = None,
    phase: Annotated[list[Phase] | None, Query(max_length=7, description="Only runs in one of these")] = None,
    text: Annotated[
        str,
        Query(
            max_length=MAX_TEXT,
            description="Words; the name, title, project, tags, phase or status of a run must contain each",
            json_schema_extra={"pattern": WORDS},
        ),
        AfterValidator(read_words),
    ] = "",
    where: Annotated[
        list[Where] | None,
        Query(
            max_length=MAX_CONDITIONS,
            description="`COLUMN:contains:TEXT`, `COLUMN:above:NUMBER` or `COLUMN:below:NUMBER`; a run must meet all",
        ),
    ] = None,
    archived: Annotated[bool | None, Query(description="Only archived runs, or only others; by default, both")] = None,
) -> RunFilter | None:
    """Return the filter of the wanted runs among those that the key may access; None if it may access none of them."""
    if project is not None and not asking.reaches(project):
        return None
    return RunFilter(
        project=asking.project or project,
        owner=owner,
        tag=tag,
        status=status or (),
        phase=phase or (),
        words=text.split(),
        is_archived=archived,
        conditions=[_condition(each) for each in where or ()],
    )


Wanted = Annotated[RunFilter | None, Depends(_wanted_runs)]


def _condition(stated: str) -> Condition:
    column, operator, value = stated.split(":", 2)
    checked = cast("Literal['contains', 'above', 'below']", operator)
    return Condition(column, checked, value if operator == "contains" else float(value))
