"""Drawings of a report, as SVG: the phases of a run, and a signal over its steps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from monitor_server.detection.protocol import Phase
from monitor_server.html_report.elements import text
from monitor_server.plot_scale import share_of_range, spell_value

__all__ = ["PhaseInterval", "ReportCurve", "StepAxis", "phase_legend", "plot", "timeline"]

# The dashboard's colours of phases and severities (dashboard/theme.py), which differ in lightness as well as hue.
PHASES = {
    Phase.WARMUP: "#8496b0",
    Phase.HEALTHY: "#17967f",
    Phase.STAGNATION: "#e9bf3c",
    Phase.DECAY: "#ee8432",
    Phase.ACCELERATION: "#cf2f45",
    Phase.COLLAPSED: "#7440ad",
    Phase.UNKNOWN: "#b4bcc8",
}
# The dashboard's shapes of phases (dashboard/assets/style.css), for people who cannot distinguish the colours.
SHAPES = {
    Phase.WARMUP: "inset(4%)",
    Phase.HEALTHY: "circle(46%)",
    Phase.STAGNATION: "polygon(25% 5%,75% 5%,100% 50%,75% 95%,25% 95%,0 50%)",
    Phase.DECAY: "polygon(50% 0,100% 50%,50% 100%,0 50%)",
    Phase.ACCELERATION: "polygon(50% 4%,100% 94%,0 94%)",
    Phase.COLLAPSED: (
        "polygon(18% 0,50% 32%,82% 0,100% 18%,68% 50%,100% 82%,82% 100%,50% 68%,18% 100%,0 82%,32% 50%,0 18%)"
    ),
    Phase.UNKNOWN: "inset(36% 0)",
}
WIDTH, HEIGHT = 560, 130


class PhaseInterval(NamedTuple):
    """A phase and the steps over which it held, both ends included."""

    phase: Phase
    from_step: int
    to_step: int


@dataclass(frozen=True, slots=True)
class StepAxis:
    """The steps that a drawing shows, both ends included."""

    first_step: int
    last_step: int

    def x(self, step: float) -> float:
        """Return the horizontal place of a step, in units of the drawing; a step outside is moved to the border."""
        share = (step - self.first_step) / max(1, self.last_step + 1 - self.first_step)
        return min(max(share, 0.0), 1.0) * WIDTH

    def interval(self, phase: PhaseInterval) -> tuple[float, float]:
        """Return the left edge and the width of a phase; the shortest phase stays visible."""
        begin = self.x(phase.from_step)
        return begin, max(0.5, self.x(phase.to_step + 1) - begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCurve:
    """A signal: the smallest and the largest finite value of each of n neighbourhoods of steps.

    Attributes:
        name: The signal.
        steps: One step of each neighbourhood, ascending, ``(n,)``.
        lows: The smallest values, ``(n,)``.
        highs: The largest values, ``(n,)``.
        non_finite: The first step at which the signal was NaN or infinite.
    """

    name: str
    steps: Sequence[int]
    lows: Sequence[float]
    highs: Sequence[float]
    non_finite: int | None = None


def phase_legend(phases: Iterable[Phase], rows: dict[Phase, int] | None = None) -> str:
    """Return colour and shape of each phase with its name, and the number of its steps if ``rows`` contains it."""
    counts = rows or {}
    return "".join(
        f'<span><i style="background:{PHASES[phase]};clip-path:{SHAPES[phase]}"></i>{phase}'
        + (f" ({counts[phase]})" if phase in counts else "")
        + "</span>"
        for phase in dict.fromkeys(phases)
    )


def timeline(axis: StepAxis, phases: Sequence[PhaseInterval]) -> str:
    """Return the phases as one bar."""
    bars = "".join(
        f'<rect x="{begin:.2f}" y="0" width="{width:.2f}" height="26" fill="{PHASES[phase.phase]}"><title>'
        f"{phase.phase}, steps {phase.from_step} to {phase.to_step}</title></rect>"
        for phase in phases
        for begin, width in [axis.interval(phase)]
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} 26" preserveAspectRatio="none" style="height:26px" role="img" '
        f'aria-label="phases by step">{bars}</svg>'
    )


def plot(axis: StepAxis, curve: ReportCurve, phases: Sequence[PhaseInterval], alarms: Iterable[int]) -> str:
    """Return a figure of a signal over its steps, with its phases behind it and a line at each step of ``alarms``."""
    low, high = min(curve.lows, default=0.0), max(curve.highs, default=0.0)

    def y(value: float) -> float:
        return HEIGHT - 6 - share_of_range(value, low, high) * (HEIGHT - 12)

    bands = "".join(
        f'<rect x="{begin:.2f}" y="0" width="{width:.2f}" height="{HEIGHT}" fill="{PHASES[each.phase]}" opacity=".13"/>'
        for each in phases
        for begin, width in [axis.interval(each)]
    )
    places = [
        (axis.x(step + 0.5), y(least), y(most))
        for step, least, most in zip(curve.steps, curve.lows, curve.highs, strict=True)
    ]
    outline = [f"{x:.1f},{top:.1f}" for x, _, top in places] + [
        f"{x:.1f},{bottom:.1f}" for x, bottom, _ in reversed(places)
    ]
    line = " ".join(f"{x:.1f},{(top + bottom) / 2:.1f}" for x, bottom, top in places)
    lines = "".join(
        f'<line class="alarm" x1="{axis.x(step + 0.5):.1f}" x2="{axis.x(step + 0.5):.1f}" y1="0" y2="{HEIGHT}"/>'
        for step in dict.fromkeys(alarms)
    )
    reach = f"{spell_value(low)} to {spell_value(high)}" if places else "never finite"
    if curve.non_finite is not None:
        reach += f", not finite at step {curve.non_finite}"
    name = text(curve.name)
    return (
        f"<figure><figcaption><span>{name}</span><span class='muted'>{reach}</span></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" style="height:{HEIGHT}px" role="img" '
        f'aria-label="{name}: {reach}">{bands}<polygon class="band" points="{" ".join(outline)}"/>'
        f'<polyline class="trace" points="{line}"/>{lines}</svg></figure>'
    )
