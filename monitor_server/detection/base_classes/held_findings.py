"""Keeps findings through rows that lack their signal: an absent signal is not observed, so it ends nothing."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from monitor_server.detection.protocol import Finding, Observation

__all__ = ["LONGEST_GAP", "HeldFindings"]

# A batch that is trained on for many steps has its reward in the first of them only.
LONGEST_GAP = 25  # rows without a signal, after which it is not observed any more


class _Held(NamedTuple):
    finding: Finding
    rows: int  # since it was found
    openings: Sequence[Finding]  # the first finding of each severity, up to the present one


class HeldFindings:
    """The newest finding of each kind, with the number of rows since it was found.

    A finding is kept in a row that lacks the signal that its evidence names, unless the row has another finding of its
    kind that is as severe. It stays as it was found, with its step.
    """

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def update(self, observation: Observation, found: Sequence[Finding]) -> Sequence[Finding]:
        """Return a row's findings with those that it keeps, one of each kind.

        Args:
            observation: The row.
            found: What the detectors have found in it, one finding of each kind.
        """
        if not (found or self._held):
            return found
        ranks = {finding.kind: finding.severity.rank for finding in found}
        kept = {
            kind: held._replace(rows=held.rows + 1)
            for kind, held in self._held.items()
            if held.finding.severity.rank > ranks.get(kind, -1)
            and held.rows < LONGEST_GAP
            and held.finding.evidence.get("signal") not in observation.finite
        }
        self._held = {
            finding.kind: _Held(finding, 0, self._list_openings(finding))
            for finding in found
            if "signal" in finding.evidence
        } | kept
        if not kept:
            return found
        return [*(finding for finding in found if finding.kind not in kept), *(held.finding for held in kept.values())]

    def _list_openings(self, finding: Finding) -> Sequence[Finding]:
        """Return the first finding of each severity of a kind, up to that of its newest finding."""
        held = self._held.get(finding.kind)
        rank = finding.severity.rank
        openings = [each for each in held.openings if each.severity.rank <= rank] if held else []
        if not openings or openings[-1].severity.rank < rank:
            openings.append(finding)
        return openings

    def take_back(self, step: int, rows: int) -> None:
        """Forget what was found at a step or after it, because a rewind replaces these rows.

        A kind whose newest finding is among them holds as it was found before, when it opened or became more severe.

        Args:
            step: The first step that is replaced.
            rows: Number of rows that are replaced.
        """
        left = {}
        for kind, held in self._held.items():
            openings = [each for each in held.openings if each.step < step]
            if held.finding.step < step:
                left[kind] = held._replace(rows=max(0, held.rows - rows))
            elif openings:
                left[kind] = _Held(openings[-1], 0, openings)
        self._held = left

    def end(self, kind: str) -> None:
        """Keep no finding of a kind any more."""
        self._held.pop(kind, None)

    def state(self) -> list[Any]:
        """Return the state for a restart, as JSON values."""
        return [
            [held.finding.state(), held.rows, [each.state() for each in held.openings]] for held in self._held.values()
        ]

    def load(self, state: Sequence[Sequence[Any]]) -> None:
        """Restore a saved state; older versions saved no openings, and the newest finding counts as one."""
        for saved, rows, *others in state:
            finding = Finding.from_state(saved)
            openings = [Finding.from_state(each) for each in others[0]] if others else [finding]
            self._held[finding.kind] = _Held(finding, rows, openings)
