"""Keeps findings through rows that lack their signal: an absent signal is not observed, so it ends nothing."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from monitor_server.detection.protocol import Finding, Observation

__all__ = ["LONGEST_GAP", "HeldFindings"]

# A batch that is trained on for many steps has its reward in the first of them only.
LONGEST_GAP = 25  # rows without a signal, after which it is not observed any more


class HeldFindings:
    """The newest finding of each kind, with the number of rows since it was found.

    A finding is kept in a row that lacks the signal that its evidence names, unless the row has another finding of its
    kind that is as severe. It stays as it was found, with its step.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[Finding, int]] = {}

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
            kind: (finding, rows + 1)
            for kind, (finding, rows) in self._held.items()
            if finding.severity.rank > ranks.get(kind, -1)
            and rows < LONGEST_GAP
            and finding.evidence.get("signal") not in observation.finite
        }
        self._held = {finding.kind: (finding, 0) for finding in found if "signal" in finding.evidence} | kept
        if not kept:
            return found
        return [*(finding for finding in found if finding.kind not in kept), *(finding for finding, _ in kept.values())]

    def end(self, kind: str) -> None:
        """Keep no finding of a kind any more."""
        self._held.pop(kind, None)

    def end_others(self, kinds: Container[str]) -> None:
        """Keep only findings of these kinds."""
        self._held = {kind: held for kind, held in self._held.items() if kind in kinds}

    def state(self) -> list[Any]:
        """Return the state for a restart, as JSON values."""
        return [[finding.state(), rows] for finding, rows in self._held.values()]

    def load(self, state: Sequence[tuple[Mapping[str, Any], int]]) -> None:
        """Restore a saved state."""
        for saved, rows in state:
            finding = Finding.from_state(saved)
            self._held[finding.kind] = finding, rows
