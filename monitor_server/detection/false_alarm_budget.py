"""The warranty, one false page in so many steps, and the false-alarm budget of a run, which spends what it allows.

A page is an episode, from the first critical finding until none holds. Let H be the recorded steps of n healthy runs,
M_i the largest strength of a page in run i (0 without one), g(s) = s⁴, and M the largest strength so far in a new run.
With a warranty of one false page in N steps the new run may have opened at most

    (H / N) · g(M) / (g(M) + Σ g(M_i))

pages. The right side is a · E, where a = H / ((n + 1) N) is the same for each run and

    E = (n + 1) g(M) / (g(M) + Σ g(M_i))

is a conformal e-value: its mean is at most 1 if the new run is exchangeable with the healthy ones. M never falls, so E
never exceeds its value at the end of the run. So at every stopping time, and even at one that is chosen in hindsight,
the mean of their number / a is at most 1, and the mean number of false ones is at most the mean number of steps of a
healthy run divided by N. (Of n + 1 exchangeable runs with steps L_j, each in turn the new one, the mean of a · E is
Σ_j (g_j / Σ g) (ΣL − L_j) / ((n + 1) N) ≤ ΣL / ((n + 1) N).)

Reference:
    Gauthier, Bach and Jordan, "E-Values Expand the Scope of Conformal Prediction" (arXiv 2503.13050, 2025).
    Koning, "Post-hoc α Hypothesis Testing and the Post-hoc p-value" (arXiv 2312.08040).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from monitor_server.detection.protocol import Finding, Severity
from monitor_server.detection.statistics.state import Stateful

__all__ = ["FalseAlarmBudget", "Warranty"]

# The power of the strength in the e-value. Any power is valid. With one healthy run that had a page, one of twice its
# strength has 0.94 of the whole budget at this power, and one of half its strength has 0.06.
POWER = 4
LARGEST = 1e6  # the largest strength, so that the sum of the fourth powers of any number of them is finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Warranty:
    """One false page in ``steps_per_page`` steps, and the healthy runs that this rests on.

    Attributes:
        steps_per_page: Recorded steps in which at most one false page is wanted, N.
        gpu_hours_per_page: The same number in GPU-hours, if the user stated it so.
        runs: Number of healthy runs, n.
        steps: Recorded steps of all of them, H.
        longest: Recorded steps of the longest one.
        weight: Σ g(M_i).
    """

    steps_per_page: float
    gpu_hours_per_page: float | None = None
    runs: int = 0
    steps: int = 0
    longest: int = 0
    weight: float = 0.0

    @classmethod
    def of_runs(
        cls, steps_per_page: float, runs: Sequence[tuple[int, float]], *, gpu_hours_per_page: float | None = None
    ) -> Self:
        """Build the warranty from the recorded steps of each healthy run, and its strongest page."""
        return cls(
            steps_per_page=steps_per_page,
            gpu_hours_per_page=gpu_hours_per_page,
            runs=len(runs),
            steps=sum(steps for steps, _ in runs),
            longest=max([steps for steps, _ in runs], default=0),
            weight=math.fsum(_weight(strength) for _, strength in runs if strength > 0.0),
        )

    @property
    def is_in_force(self) -> bool:
        """Whether the healthy runs are sufficient for a page: H ≥ N, and more if one of them had one."""
        return self.strength_needed <= LARGEST

    @property
    def strength_needed(self) -> float:
        """The strength from which the first page of a run opens, (Σ g / (H / N − 1))^¼; infinite if none can.

        >>> Warranty(steps_per_page=1000, runs=10, steps=2000, longest=200, weight=16.0).strength_needed
        2.0
        """
        spare = self.steps / self.steps_per_page - 1.0
        if not self.weight:
            return 0.0 if spare >= 0.0 else math.inf
        return (self.weight / spare) ** (1.0 / POWER) if spare > 0.0 else math.inf

    @property
    def runs_needed(self) -> int:
        """The number of healthy runs of the present mean length that have N steps in all; 0 without a run."""
        return math.ceil(self.steps_per_page * self.runs / self.steps) if self.steps else 0

    def allowance(self, strength: float) -> float:
        """Return how many pages a run whose largest strength is ``strength`` may have opened.

        >>> Warranty(steps_per_page=1000, runs=10, steps=2000, longest=200, weight=16.0).allowance(2.0)
        1.0
        """
        weight = _weight(strength)
        return self.steps / self.steps_per_page * weight / (weight + self.weight) if weight else 0.0

    def describe(self) -> str:
        """Describe the promise in words, or what is missing for it."""
        stated = f"one false page in {self.steps_per_page:,.0f} recorded steps"
        if self.gpu_hours_per_page is not None:
            stated += f" ({self.gpu_hours_per_page:,.6g} GPU-hours)"
        if self.is_in_force:
            return f"{stated}, from {self.runs} healthy runs with {self.steps:,} steps"
        needed = math.ceil(self.steps_per_page) if math.isfinite(self.steps_per_page) else math.inf
        if self.steps >= needed:
            return (
                f"no warranty yet: {self.runs} healthy runs with {self.steps:,} of {needed:,} steps, "
                "and pages among them that are too strong for so few steps"
            )
        runs = f"{self.runs} of about {self.runs_needed} healthy runs" if self.runs else "no healthy runs"
        return f"no warranty yet: {runs}, with {self.steps:,} of {needed:,} steps"


class FalseAlarmBudget(Stateful):
    """The ledger of one run: decides which pages may open, and counts the spent amount.

    Findings that become critical in an open page cost nothing more. A finding without a degree (NaN) is a fact, and is
    neither held back nor counted. Without enough healthy runs every one opens, and its evidence states that there is no
    warranty.

    Attributes:
        seen: Recorded steps so far.
        largest: Largest strength of a critical finding so far.
        pages: Pages that were opened.
        held_back: Steps at which a critical finding was shown as a warning.
        is_open: Whether a page is open.
        open_rows: Steps of the open page.
    """

    def __init__(self, warranty: Warranty) -> None:
        self._warranty = warranty
        self.seen = 0
        self.largest = 0.0
        self.pages = 0
        self.held_back = 0
        self.is_open = False
        self.open_rows = 0

    def begin_late(self, seen: int, findings: Sequence[Finding]) -> None:
        """Take over a run that began without a warranty: its steps, and the page that is open, which is paid.

        Its earlier pages are not known, nor is the step at which the open one began. So this page may be as old as the
        run, and a rewind does not end it as long as a critical finding holds.

        Args:
            seen: Recorded steps so far.
            findings: The findings of the newest step.
        """
        critical = [finding for finding in findings if finding.severity is Severity.CRITICAL]
        strengths = [finding.strength for finding in critical if math.isfinite(finding.strength)]
        self.seen = seen
        self.largest = max(strengths, default=0.0)
        self.pages = int(bool(critical) and len(strengths) == len(critical))
        self.is_open = bool(critical)
        self.open_rows = seen if self.is_open else 0

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - the steps of the page are counted
        """End a page that began in rows that are replaced: what is found again is another one, as its alert is.

        What was spent stays spent, because the page was opened.
        """
        self.open_rows = max(0, self.open_rows - rows)
        self.is_open = self.open_rows > 0

    def update(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Return the findings of one step; a critical one that the budget does not allow becomes a warning."""
        self.seen += 1
        critical = [finding for finding in findings if finding.severity is Severity.CRITICAL]
        if not critical:
            self.is_open, self.open_rows = False, 0
            return findings
        strengths = [finding.strength for finding in critical if math.isfinite(finding.strength)]
        self.largest = max([self.largest, *strengths])
        if not self.is_open and len(strengths) == len(critical) and not self._pays():
            return [self._hold_back(f) if f.severity is Severity.CRITICAL else f for f in findings]
        self.is_open, self.open_rows = True, self.open_rows + 1
        return [self._note(f) if f.severity is Severity.CRITICAL else f for f in findings]

    def _pays(self) -> bool:
        """Pay for one more page if the budget allows it; without a warranty every page opens."""
        if self._warranty.is_in_force and self._warranty.allowance(self.largest) < self.pages + 1:
            self.held_back += 1
            return False
        self.pages += 1
        return True

    def _note(self, finding: Finding) -> Finding:
        return finding._replace(evidence={**finding.evidence, "warranty": self._warranty.describe()})

    def _hold_back(self, finding: Finding) -> Finding:
        allowed, warranty = self._warranty.allowance(self.largest), self._warranty
        reason = (
            f"held back as a warning: the warranty of {warranty.describe()}, allows {allowed:.3g} pages of this run at "
            f"the strength {self.largest:.3g}, and this would be page {self.pages + 1}, as of step {finding.step:,}"
        )
        return finding._replace(
            severity=Severity.WARNING,
            evidence={**finding.evidence, "warranty": reason, "pages_allowed": allowed, "pages_opened": self.pages},
        )


def _weight(strength: float) -> float:
    """Return g(s) = s⁴ of a strength; for no page, 0."""
    return float(min(max(strength, 0.0), LARGEST) ** POWER)
