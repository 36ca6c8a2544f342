"""The rules of many runs during projection: each complete step once and in order, and the clock between steps.

The state of a run's rules is saved in the transaction of the last processed step, as is that of its detectors, so that
a restart or another collector continues from there. A run without rules has no state and costs one look-up.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from monitor_server.detection.protocol import RULE_PREFIX, Finding
from monitor_server.rules.definition import MAX_COMPARISONS, ComparisonRule
from monitor_server.rules.findings import finding_of
from monitor_server.rules.known_rules import KnownRule, KnownRules
from monitor_server.rules.state_machine import Machine, MachineState
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.rules import NO_REVISION, SavedRuleStates
from monitor_server.store.repositories.runs import Run
from monitor_server.store.repositories.steps import Step

__all__ = ["RuleTracker", "decode_states"]

log = logging.getLogger(__name__)

_STATES = msgspec.msgpack.Decoder(list[MachineState])


@dataclass(slots=True)
class _TrackedRules:
    machines: list[Machine]
    rules_revision: int
    revision: int
    is_stored: bool
    is_changed: bool = False
    # Whether rules were added, changed or removed since the alerts of the run were last updated from their findings.
    is_resynchronised: bool = False
    due_at: float | None = None  # as it is stored


class RuleTracker:
    """The rules of many runs. Their state stays in memory between steps."""

    def __init__(self, known: KnownRules | None = None, *, max_runs: int = 512) -> None:
        self.known = known or KnownRules()
        self._max_runs = max_runs
        self._tracked: dict[str, _TrackedRules] = {}
        # The newest revision of the rules to which the states of all runs with open alerts were brought.
        self._alerts_brought_to = 0

    @property
    def runs_in_memory(self) -> int:
        """The number of runs that are kept in memory."""
        return len(self._tracked)

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, from memory, because the store did not accept the change."""
        if run_id is None:
            self._tracked.clear()
        else:
            self._tracked.pop(run_id, None)

    def due_runs(self, repositories: Repositories, *, now: float) -> list[str]:
        """Read the rules if some have changed, and return the runs that have work because of the clock or a change.

        A state that belongs to older rules than those in force is updated, also for a silent run, and for an ended run
        if one of its alerts is open.
        """
        self.known.refresh(repositories)
        revision = self.known.current.revision
        if not revision:
            return []
        due = repositories.rules.due_runs(now=now, revision=revision)
        if self._alerts_brought_to != revision:
            others = repositories.rules.older_runs_with_alerts(revision=revision)
            if not others:  # a later step brings its run to the rules in force, so that there are no more of them
                self._alerts_brought_to = revision
            due = list(dict.fromkeys([*due, *others]))
        return due

    def observe(
        self, repositories: Repositories, run: Run, step: Step, *, now: float
    ) -> tuple[list[Finding], dict[str, str]]:
        """Process a complete step.

        Args:
            repositories: The snapshot of the slice.
            run: The run.
            step: A step that the detectors process as well.
            now: The time of the collector's clock.

        Returns:
            The findings of all rules that fire on the run; and why alerts of comparisons end without a comparison, by
            their kinds.
        """
        tracked = self._track(repositories, run)
        if tracked is None:
            return [], {}
        tracked.is_resynchronised = False  # the caller brings the alerts to these findings
        if not tracked.machines:
            return [], {}
        tracked.is_changed = True
        others: dict[str, Mapping[str, float] | None] = {}
        ended: dict[str, str] = {}
        for machine in tracked.machines:
            rule, other, is_lost = machine.rule, None, False
            if isinstance(rule, ComparisonRule):
                # Older versions have stored more comparisons than a step may read: the excess comparisons have no data.
                if rule.other_run_id not in others and len(others) < MAX_COMPARISONS:
                    others[rule.other_run_id] = _step_of_other(repositories, run, rule.other_run_id, step.step)
                signals = others.get(rule.other_run_id, {})
                is_lost = signals is None
                other = (signals or {}).get(rule.other_signal or rule.signal)
            machine.update(
                attempt=step.attempt,
                step=step.step,
                time=step.time,
                now=now,
                value=step.signals.get(rule.signal),
                other=other,
            )
            if is_lost and machine.lose_other_run():
                ended[RULE_PREFIX + rule.name] = "the run that the rule compares with is deleted"
        return _findings(tracked.machines), ended

    def tick(self, repositories: Repositories, run: Run, *, now: float, has_ended: bool) -> list[Finding] | None:
        """Process the passage of time on a run; return the findings of all firing rules, or None if nothing changed."""
        tracked = self._track(repositories, run)
        if tracked is None:
            return None
        if has_ended and tracked.due_at is not None:
            tracked.is_changed = True  # otherwise the clock would watch the ended run for ever
        fired_or_ended = [machine.end_run() if has_ended else machine.tick(now) for machine in tracked.machines]
        if not has_ended and _due_at(tracked.machines) != tracked.due_at:
            tracked.is_changed = True  # the run goes on after its end, or the collector's clock was ahead
        if not any(fired_or_ended) and not tracked.is_resynchronised:
            return None
        tracked.is_changed, tracked.is_resynchronised = True, False
        return _findings(tracked.machines)

    def encode(self, run: Run, *, has_ended: bool) -> SavedRuleStates | None:
        """Return the state of a run's rules to be written, or None if it has not changed."""
        tracked = self._tracked.get(run.id)
        if tracked is None or tracked.revision != run.revision or not tracked.is_changed:
            return None
        return SavedRuleStates(
            rules_revision=tracked.rules_revision,
            due_at=None if has_ended else _due_at(tracked.machines),
            state=msgspec.msgpack.encode([machine.state for machine in tracked.machines]) if tracked.machines else b"",
        )

    def save(self, repositories: Repositories, run: Run, saved: SavedRuleStates | None) -> None:
        """Write an encoded state with the revision that the run is about to have."""
        tracked = self._tracked.get(run.id)
        if tracked is None or tracked.revision != run.revision:
            return
        tracked.revision = run.revision + 1
        if saved is not None:
            repositories.rules.save_states(run.id, saved, is_first=not tracked.is_stored)
            tracked.due_at = saved.due_at
            tracked.is_stored, tracked.is_changed = bool(saved.state), False

    def _track(self, repositories: Repositories, run: Run) -> _TrackedRules | None:
        """Return the current rules of a run; None if there never was a rule."""
        current = self.known.current
        if not current.revision:
            return None
        tracked, begins_anew = self._tracked.pop(run.id, None), False
        if tracked is None or tracked.revision != run.revision:
            saved = repositories.rules.load_states(run.id)
            # Another collector may have seen a change before this one, or the run may have begun again after its
            # deletion.
            self.known.refresh(repositories)
            current = self.known.current
            states = [] if saved is None else decode_states(saved.state, run.id)
            known = {each.id: each for each in current.of_run(run.id, run.project)}
            machines = [
                Machine(known[state.rule_id].rule, state)
                for state in states
                if state.rule_id in known and known[state.rule_id].version == state.version
            ]
            begins_anew = saved is not None and not states
            tracked = _TrackedRules(
                machines,
                rules_revision=saved.rules_revision if saved is not None and states else NO_REVISION,
                revision=run.revision,
                is_stored=saved is not None,
                due_at=None if saved is None else saved.due_at,
            )
        self._tracked[run.id] = tracked  # the newest entry is last, and the first entry is dropped
        if len(self._tracked) > self._max_runs:
            del self._tracked[next(iter(self._tracked))]
        if tracked.rules_revision != current.revision:
            tracked.rules_revision = current.revision
            wanted = current.of_run(run.id, run.project)
            if tracked.is_stored or wanted:
                tracked.is_changed = tracked.is_resynchronised = True
            tracked.machines = _synchronise(tracked.machines, wanted)
            if begins_anew:
                _keep_firing(tracked.machines, {alert.kind for alert in repositories.alerts.open(run.id)})
        return tracked


def decode_states(stored: bytes, run_id: str) -> list[MachineState]:
    """Read the states of a run's rules; return none if they are damaged, so that the rules begin anew."""
    try:
        return _STATES.decode(stored) if stored else []
    except msgspec.MsgspecError as error:
        log.warning("the states of the rules of run %s cannot be read, and start again: %s", run_id, error)
        return []


def _synchronise(machines: Iterable[Machine], wanted: Iterable[KnownRule]) -> list[Machine]:
    """Return a machine for each rule: the existing one, or a new one if the rule is new or was changed."""
    held = {(machine.state.rule_id, machine.state.version): machine for machine in machines}
    return [
        held.get((each.id, each.version)) or Machine(each.rule, MachineState(each.id, each.version)) for each in wanted
    ]


def _keep_firing(machines: Iterable[Machine], kinds: Collection[str]) -> None:
    """Let the rules whose alerts are open fire until a step shows that their condition does not hold.

    A reset has removed the steps that they have processed, but this does not mean that the condition has ended.
    """
    for machine in machines:
        machine.state.is_firing = RULE_PREFIX + machine.rule.name in kinds


def _due_at(machines: Iterable[Machine]) -> float | None:
    return min((due for machine in machines if (due := machine.due_at()) is not None), default=None)


def _findings(machines: Iterable[Machine]) -> list[Finding]:
    return [finding_of(machine.rule, machine.state) for machine in machines if machine.state.is_firing]


def _step_of_other(repositories: Repositories, run: Run, other_run_id: str, step: int) -> Mapping[str, float] | None:
    """Return the signals of another run at a step; None if the run is deleted, or belongs to another project."""
    if repositories.runs.project(other_run_id) != run.project:
        return None
    return repositories.steps.at(other_run_id, step)
