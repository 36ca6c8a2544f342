"""The finding of a rule whose condition holds: one sentence with its arithmetic, and the evidence of the alert."""

from typing import Any, Final

from monitor_server.detection.protocol import RULE_PREFIX, Finding, Severity
from monitor_server.rules.definition import NOT_FINITE, AbsenceRule, ChangeRule, ComparisonRule, Rule
from monitor_server.rules.state_machine import MachineState

__all__ = ["describe_rule", "finding_of"]

_MEASURES: Final = {
    "difference": "{x} - {y}",
    "relative": "({x} - {y}) / |{y}|",
    "ratio": "{x} / {y}",
}


def describe_rule(rule: Rule) -> str:
    """Return the definition of a rule, in one line."""
    lasting = _state_duration(rule.for_steps, rule.for_seconds)
    if isinstance(rule, AbsenceRule):
        return f"{rule.signal} is not recorded{lasting}"
    measured = rule.signal
    if isinstance(rule, ChangeRule):
        distance = _amount(rule.before_steps, rule.before_seconds)
        measured = _MEASURES[rule.measure].format(x=rule.signal, y=f"[{distance} before]")
    elif isinstance(rule, ComparisonRule):
        other = f"[{rule.other_signal or rule.signal} of run {rule.other_run_id}]"
        measured = _MEASURES[rule.measure].format(x=rule.signal, y=other)
    condition = "is NaN or infinite" if rule.operator == NOT_FINITE else f"{rule.operator} {_exact(rule.value)}"
    return f"{measured} {condition}{lasting}"


def finding_of(rule: Rule, state: MachineState) -> Finding:
    """Return the finding of a firing rule, at the newest step that it has processed."""
    step = state.step or 0
    stated, now = describe_rule(rule), ""
    evidence: dict[str, Any] = {"rule": rule.name, "condition": rule.condition, "signal": rule.signal, "stated": stated}
    score, threshold = 1.0, 0.0
    if isinstance(rule, AbsenceRule):
        if state.observed is not None:
            now = f"not since step {state.observed.step}"
        elif state.since_step is not None:
            now = f"not from step {state.since_step} on"
        else:
            now = "not observed since the run was reset"
        evidence |= {"last_recorded_step": None if state.observed is None else state.observed.step}
    else:
        score, threshold = state.measured or 0.0, rule.value or 0.0
        now = f"{_number(state.measured, stated)} since step {state.since_step}"
        if state.measured is None:
            now = "not observed since the run was reset"
        elif state.since_step is None:  # NaN, which neither meets the condition nor ends an alert
            now = _number(state.measured, stated)
        evidence |= {"statistic": state.measured, "threshold": rule.value, "since_step": state.since_step}
        if state.observed is not None:
            evidence["value"] = state.observed.value
        if state.reference is not None:
            evidence |= {"baseline": state.reference.value, "baseline_step": state.reference.step}
        if isinstance(rule, ComparisonRule):
            evidence["other_run"] = rule.other_run_id
    prefix = f"{rule.message}: " if rule.message else ""
    return Finding(
        kind=RULE_PREFIX + rule.name,
        severity=Severity(rule.severity),
        step=step,
        score=score,
        threshold=threshold,
        summary=f"{prefix}{stated} ({now})",
        evidence=evidence,
    )


def _state_duration(steps: int | None, seconds: float | None) -> str:
    return f" for {_amount(steps, seconds)}" if steps or seconds else ""


def _amount(steps: int | None, seconds: float | None) -> str:
    return f"{steps} steps" if seconds is None else f"{_exact(seconds)} s"


def _exact(stated: float | None) -> str:
    """Return a number of a rule with all its digits, so that two different rules never have the same description."""
    return "nothing" if stated is None else repr(float(stated)).removesuffix(".0")


def _number(value: float | None, stated: str) -> str:
    """Return a value with six digits, or with all if it is whole or its digits would be those of the stated limit."""
    short = "nothing" if value is None else f"{value:.6g}"
    return _exact(value) if value is not None and (float(value).is_integer() or short in stated.split()) else short
