"""The user's own rules: list, create, change, delete and try them. A key of one project may access only its own."""

import math
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field

from monitor_server.api.body_fields import By, Text
from monitor_server.api.dependencies import Asking, Collector, DryRunReading, Reading, Serving, require_run
from monitor_server.api.error_handlers import BODY_REFUSALS, CONFLICT, NOT_FOUND
from monitor_server.api.pagination import Cursor, ItemList, PageLimit, item_list
from monitor_server.api.schemas import Body
from monitor_server.api.schemas.rules import AppliedItem, DryRunItem, EpisodeItem, RuleItem, RunRuleItem
from monitor_server.detection.protocol import RULE_PREFIX
from monitor_server.errors import InvalidField, UnknownRule, UnknownRun
from monitor_server.rules.administration.changes import Author
from monitor_server.rules.administration.rule_file import MAX_FILE_RULES, FileSet
from monitor_server.rules.administration.rule_sets import AppliedRules, apply_rules
from monitor_server.rules.administration.single_rules import create_rule, delete_rule, place_rule, replace_rule
from monitor_server.rules.definition import NOT_FINITE, AbsenceRule, Rule, WordedRule
from monitor_server.rules.dry_run import LAST_STEP, MAX_DRY_RUN_STEPS, dry_run
from monitor_server.rules.evaluation import decode_states
from monitor_server.rules.findings import describe_rule
from monitor_server.rules.known_rules import KnownRule, KnownRules, restore_rule
from monitor_server.rules.state_machine import MachineState
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.rules import StoredRule

__all__ = ["router"]

router = APIRouter()

Step = Annotated[int, Field(ge=0, le=2**53, strict=True)]


class RuleBody(Body):
    """The fields of a rule, and its author."""

    rule: WordedRule
    by: By = "somebody"


class ChangeBody(RuleBody):
    """The new fields of a rule, and the version that the caller had read."""

    version: Annotated[int, Field(ge=0, le=2**53, strict=True)] | None = Field(
        default=None, description="The change is refused if the rule has another version now; null: no check"
    )


class ApplyBody(Body):
    """Every rule of a set; other rules of the set are deleted."""

    set: FileSet = "file"
    rules: Annotated[list[WordedRule], Field(max_length=MAX_FILE_RULES)]
    by: By = "somebody"


class DryRunBody(Body):
    """A rule to try, and the recorded run."""

    run_id: Text
    rule: WordedRule
    from_step: Annotated[Step | None, Field(description="First step to read; by default, the first of the run")] = None
    to_step: Annotated[Step | None, Field(description="Last step to read; by default, the last of the run")] = None


@router.get("/rules")
def rules(
    *,
    reading: Reading,
    asking: Asking,
    cursor: Cursor,
    project: str | None = None,
    run_id: str | None = None,
    limit: PageLimit = 100,
) -> ItemList[RuleItem]:
    """List rules, the newest first."""
    if project is not None and not asking.reaches(project):
        return ItemList(items=[])
    return item_list(
        lambda most: reading.rules.page(limit=most, before=cursor, project=asking.project or project, run_id=run_id),
        limit=limit,
        item=lambda row: _item(row["rule"]),
        cursor=lambda row: row["number"],
    )


@router.post("/rules", responses=BODY_REFUSALS | NOT_FOUND | CONFLICT)
async def create(body: RuleBody, collector: Serving, asking: Asking) -> RuleItem:
    """Create a rule. It processes every step from about a second later on; use a dry run to try it on earlier steps."""
    author = Author(caller=asking, now=collector.clock(), by=body.by)

    def write(repositories: Repositories) -> StoredRule:
        return create_rule(repositories, body.rule, author=author)

    return _item(await collector.write("rules", write))


@router.post("/rules/apply", responses=BODY_REFUSALS | NOT_FOUND | CONFLICT)
async def apply(body: ApplyBody, collector: Serving, asking: Asking) -> AppliedItem:
    """Replace the rules of a set by those of a file, all or nothing. Applying the same file again changes nothing."""
    author = Author(caller=asking, now=collector.clock(), by=body.by)

    def write(repositories: Repositories) -> AppliedRules:
        return apply_rules(repositories, body.set, body.rules, author=author)

    applied = await collector.write("rules", write)
    return AppliedItem(set=body.set, **asdict(applied))


@router.post("/rules/dry-run", responses=BODY_REFUSALS | NOT_FOUND)
def try_rule(body: DryRunBody, reading: DryRunReading, asking: Asking) -> DryRunItem:
    """Find the times at which a rule would have fired on a recorded run. Nothing is written or notified.

    At most 200,000 steps are read, of each attempt in the order in which it made them, for at most 20 seconds. A
    collector runs one dry run at a time; others are answered with 503 and Retry-After.
    """
    project = reading.runs.project(body.run_id)
    if project is None or not asking.reaches(project):
        raise UnknownRun.by_id(body.run_id)
    # The rule is tried as a rule of this run, whatever project and run it contains.
    stated = body.rule.model_copy(update={"project": project, "run_id": body.run_id})
    placed = place_rule(reading, stated, asking)
    result = dry_run(
        reading,
        body.run_id,
        placed,
        from_step=body.from_step or 0,
        to_step=LAST_STEP if body.to_step is None else body.to_step,
        most_steps=MAX_DRY_RUN_STEPS,
    )
    state: Literal["fired", "quiet", "no_data"] = (
        "fired" if result.episode_count else "quiet" if result.observed else "no_data"
    )
    fields = asdict(result) | {"episodes": [EpisodeItem(**asdict(each)) for each in result.episodes]}
    return DryRunItem(run_id=body.run_id, state=state, stated=describe_rule(placed), **fields)


@router.get("/rules/{rule_id}", responses=NOT_FOUND)
def rule(rule_id: str, reading: Reading, asking: Asking) -> RuleItem:
    """Return one rule."""
    found = reading.rules.find(rule_id)
    if found is None or not asking.reaches(found.project):
        raise UnknownRule.by_id(rule_id)
    return _item(found)


@router.put("/rules/{rule_id}", responses=BODY_REFUSALS | NOT_FOUND | CONFLICT)
async def change(rule_id: str, body: ChangeBody, collector: Serving, asking: Asking) -> RuleItem:
    """Change a rule. It begins anew: its alerts are resolved, and open again if the new condition holds."""
    author = Author(caller=asking, now=collector.clock(), by=body.by)

    def write(repositories: Repositories) -> StoredRule:
        return replace_rule(repositories, rule_id, body.rule, author=author, version=body.version)

    return _item(await collector.write("rules", write))


@router.delete("/rules/{rule_id}", responses=NOT_FOUND)
async def delete(rule_id: str, collector: Serving, asking: Asking) -> RuleItem:
    """Delete a rule, and return it. Its alerts are resolved within seconds."""
    author = Author(caller=asking, now=collector.clock())

    def write(repositories: Repositories) -> StoredRule:
        return delete_rule(repositories, rule_id, author=author)

    return _item(await collector.write("rules", write))


@router.get("/runs/{run_id}/rules", responses=NOT_FOUND)
def rules_of_run(run_id: str, collector: Serving, reading: Reading) -> ItemList[RunRuleItem]:
    """List the rules that apply to a run, including those of all projects, with their states."""
    require_run(reading, run_id)
    known = _known_rules(collector, reading)
    project = reading.runs.project(run_id) or ""
    saved = reading.rules.load_states(run_id)
    states = [] if saved is None else decode_states(saved.state, run_id)
    by_rule = {(state.rule_id, state.version): state for state in states}
    items = [_run_item(each, by_rule.get((each.id, each.version))) for each in known.current.of_run(run_id, project)]
    return ItemList(items=items, next=None)


def _known_rules(collector: Collector, reading: Repositories) -> KnownRules:
    known = KnownRules() if collector.projector is None else collector.projector.rules.known
    known.refresh(reading)
    return known


def _item(stored: StoredRule) -> RuleItem:
    rule: Rule | None = None
    try:
        rule = restore_rule(stored)
        stated = describe_rule(rule)
    except InvalidField as error:
        stated = f"this version cannot read it: {error}"
    names = ("id", "file_set", "version", "created_at", "created_by", "updated_at", "updated_by")
    fields: dict[str, Any] = {name: getattr(stored, name) for name in names}
    return RuleItem(kind=RULE_PREFIX + stored.name, stated=stated, rule=rule, **fields)


def _run_item(each: KnownRule, state: MachineState | None) -> RunRuleItem:
    observed = None if state is None else state.observed
    return RunRuleItem(
        id=each.id,
        name=each.rule.name,
        kind=RULE_PREFIX + each.rule.name,
        severity=each.rule.severity,
        stated=describe_rule(each.rule),
        state=_state_of(each, state),
        step=None if state is None else state.step,
        since_step=None if state is None else state.since_step,
        observed_step=None if observed is None else observed.step,
        observed_value=None if observed is None else observed.value,
        measured=None if state is None else state.measured,
    )


def _state_of(each: KnownRule, state: MachineState | None) -> Any:  # noqa: ANN401 - one of `RuleState`
    if state is not None and state.is_firing:
        return "firing"
    if state is None or state.step is None:
        return "waiting"
    if not state.has_data:
        return "no_data"
    if isinstance(each.rule, AbsenceRule):
        return "ok"
    if state.measured is not None and math.isnan(state.measured) and each.rule.operator != NOT_FINITE:
        return "undecided"
    return "pending" if state.since_step is not None else "ok"
