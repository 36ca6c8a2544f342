"""The report of a check in a terminal: verdict, timeline, small plots, findings, and missing signals."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor_server.detection.protocol import Phase, Severity
from monitor_server.importers.mapping import name_unread_keys
from monitor_server.log_check.advice import gaps, saving
from monitor_server.log_check.envelopes import Envelope
from monitor_server.log_check.examination import Examination, Outcome, PhaseSpan
from monitor_server.log_check.reports.wording import (
    DRIFT_INPUTS,
    PLOTTED,
    heading,
    savings,
    size,
    suspicion,
    verdict,
)
from monitor_server.plot_scale import ASCII_BARS, BARS, share_of_range, spell_value
from monitor_server.text_safety.printable import printable

__all__ = ["print_report", "print_summary"]

PLOTS = 6
FINDINGS = 12
NAMES = 8
LONGEST_NAME = 120
MOST_NOTES = 12  # below the table of many runs
GUTTER = 22
PHASE_STYLES = {
    Phase.WARMUP: "grey58",
    Phase.HEALTHY: "green",
    Phase.STAGNATION: "yellow",
    Phase.DECAY: "dark_orange",
    Phase.ACCELERATION: "red",
    Phase.COLLAPSED: "magenta",
    Phase.UNKNOWN: "grey42",
}
# In a terminal without colour and in a pipe, a letter identifies each phase.
PHASE_LETTERS = {phase: str(phase)[0] for phase in Phase} | {Phase.COLLAPSED: "X", Phase.UNKNOWN: "?"}
SEVERITY_STYLES = {Severity.INFO: "blue", Severity.WARNING: "dark_orange", Severity.CRITICAL: "bold red"}
OUTCOME_STYLES = {
    Outcome.CRITICAL: "bold white on red",
    Outcome.WARNING: "bold black on dark_orange",
    Outcome.QUIET: "bold white on green",
    Outcome.NOT_OBSERVED: "bold white on grey42",
}


def print_report(
    console: Console, found: Examination, *, gpus: int | None = None, step_seconds: float | None = None
) -> None:
    """Print the whole report of one log."""
    outcome = Text(f" {found.outcome.upper()} ", style=OUTCOME_STYLES[found.outcome])
    console.print(Text.assemble(outcome, " ", (printable(found.log.name), "bold"), "  ", printable(heading(found))))
    console.print(Text(verdict(found)))
    saved = savings(found, saving(found, gpus=gpus, step_seconds=step_seconds))
    if saved:
        console.print(Text(saved))
    console.print()
    _print_timeline(console, found)
    _print_plots(console, found)
    _print_findings(console, found)
    _print_gaps(console, found)
    _print_names(console, found)


def print_summary(console: Console, examinations: Sequence[Examination]) -> None:
    """Print one line for each of many runs."""
    table = Table(box=None, pad_edge=False)
    for column in ("outcome", "run", "steps", "warned", "paged", "collapsed", "first alarm"):
        table.add_column(column, justify="right" if column in ("steps", "warned", "paged", "collapsed") else "left")
    for found in examinations:
        alarms = [episode.finding for episode in found.episodes if episode.finding.severity is not Severity.INFO]
        table.add_row(
            Text(found.outcome, style=OUTCOME_STYLES[found.outcome]),
            Text(printable(found.log.name), overflow="fold"),
            str(found.rows),
            *(("-" if step is None else str(step)) for step in (found.warn_step, found.page_step, found.collapse_step)),
            Text(printable(alarms[0].kind) if alarms else ""),
        )
    console.print(table)
    notes = [(found.log.name, note) for found in examinations for note in found.notes]
    for name, note in notes[:MOST_NOTES]:
        console.print(Text(f"{printable(name)}: {note}", style="dark_orange"))
    if len(notes) > MOST_NOTES:
        console.print(Text(f"{len(notes) - MOST_NOTES} more notes; name a run to see its own", style="dark_orange"))


def _width(console: Console) -> int:
    return max(20, min(console.width, 120) - GUTTER - 22)


def _print_timeline(console: Console, found: Examination) -> None:
    if not found.rows:
        return
    width = _width(console)
    line = Text(f"{'phase':>{GUTTER - 1}} ")
    row = 0.5
    is_plain = console.color_system is None or console.options.ascii_only
    for place in range(width):
        phase = _phase_at(found.phases, int((place + row) / width * found.rows))
        line.append(PHASE_LETTERS[phase] if is_plain else "█", style=PHASE_STYLES[phase])
    console.print(line)
    marks = [" "] * width
    for alarm in found.alarm_rows:
        marks[alarm * width // found.rows] = "^"
    if "^" in marks:
        console.print(Text(" " * GUTTER + "".join(marks).rstrip() + " alarm", style="bold red"))
    legend = Text()
    for phase in dict.fromkeys(span.phase for span in found.phases):
        rows = sum(span.rows for span in found.phases if span.phase is phase)
        mark = PHASE_LETTERS[phase] if is_plain else "█"
        legend.append(f"{mark} ", style=PHASE_STYLES[phase]).append(f"{phase} {rows}  ")
    console.print(Padding(legend, (0, 0, 0, GUTTER)))
    console.print(Text(f"{'observed':>{GUTTER - 1}} {DRIFT_INPUTS[found.drift_input]}"))


def _phase_at(phases: Sequence[PhaseSpan], row: int) -> Phase:
    for span in phases:
        row -= span.rows
        if row < 0:
            return span.phase
    return phases[-1].phase


def _print_plots(console: Console, found: Examination) -> None:
    width = _width(console)
    console.print()
    for signal in [name for name in PLOTTED if name in found.envelopes][:PLOTS]:
        envelope = found.envelopes[signal]
        lows = [value for value in envelope.lows if math.isfinite(value)]
        line = Text(f"{signal:>{GUTTER - 1}} ")
        bars = ASCII_BARS if console.options.ascii_only else BARS
        line.append(sparkline(envelope, width, *found.step_range, bars), style="cyan")
        if lows:
            line.append(f"  {spell_value(min(lows))} to {spell_value(max(envelope.highs))}")
        if envelope.non_finite is not None:
            line.append(f"  not finite at step {envelope.non_finite}", style="bold red")
        console.print(line)


def sparkline(envelope: Envelope, width: int, first: int, last: int, bars: str = BARS) -> str:
    """Return a signal's course as one line of bars: each column shows the value farthest from the signal's middle."""
    if not envelope.steps:
        return "!" * width
    low, high = min(envelope.lows), max(envelope.highs)
    middle = low / 2.0 + high / 2.0  # the sum of the largest floats is infinite
    columns: list[float | None] = [None] * width
    for step, least, most in zip(envelope.steps, envelope.lows, envelope.highs, strict=True):
        place = max(0, min(width - 1, int((step - first) / max(1, last - first + 1) * width)))
        value = least if middle - least > most - middle else most
        held = columns[place]
        columns[place] = value if held is None or abs(value - middle) > abs(held - middle) else held
    top = len(bars) - 1
    return "".join(" " if value is None else bars[round(share_of_range(value, low, high) * top)] for value in columns)


def _print_findings(console: Console, found: Examination) -> None:
    if not found.episodes:
        return
    console.print()
    table = Table(box=None, pad_edge=False, title="What was found", title_justify="left", title_style="bold")
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("severity", no_wrap=True)
    table.add_column("suspect", max_width=20)
    table.add_column("finding", overflow="fold")
    shown = sorted(found.episodes, key=lambda episode: -episode.finding.severity.rank)[:FINDINGS]
    for episode in sorted(shown, key=lambda episode: episode.finding.step):
        finding = episode.finding
        table.add_row(
            str(finding.step),
            Text(finding.severity, style=SEVERITY_STYLES[finding.severity]),
            Text(suspicion(found, episode)),
            Text.assemble((f"{printable(finding.kind)}: ", "bold"), printable(finding.summary)),
        )
    console.print(table)
    if len(found.episodes) > len(shown):
        console.print(Text(f"{len(found.episodes) - len(shown)} more; --json has all of them"))


def _print_gaps(console: Console, found: Examination) -> None:
    missing = gaps(found)
    if not missing:
        return
    console.print()
    console.print(Text("Not logged, so not observed", style="bold"))
    for gap in missing:
        line = Text.assemble((", ".join(gap.signals), "bold"), f": {gap.cost}. {gap.remedy}.")
        console.print(Padding(line, (0, 0, 0, 2)), soft_wrap=False)


def _print_names(console: Console, found: Examination) -> None:
    console.print()
    console.print(Text("Names", style="bold"))
    mapped = found.mapping.keys_of_signals()
    renamed = ", ".join(f"{signal} = {keys}" for signal, keys in sorted(mapped.items()) if signal != keys)
    own = sum(signal == keys for signal, keys in mapped.items())
    whose = "its own name" if own == 1 else "their own names"
    lines = [renamed, f"{size(own, 'signal')} under {whose}" if own else ""]
    shown = "; ".join(line for line in lines if line) or "no key of this log names a signal"
    console.print(Padding(Text(printable(shown)), (0, 0, 0, 2)))
    unknown = found.mapping.unknown()
    if unknown:
        more = f" and {len(unknown) - NAMES} more" if len(unknown) > NAMES else ""
        listed = ", ".join(printable(key, longest=LONGEST_NAME) for key in unknown[:NAMES])
        console.print(Padding(Text(f"not signals: {listed}{more} (--map SIGNAL=KEY reads one)"), (0, 0, 0, 2)))
    for line in name_unread_keys([found.mapping]):
        console.print(Padding(Text(printable(line), style="red"), (0, 0, 0, 2)))
    for remark in [*found.report.remarks, *found.mapping.notes]:
        console.print(Padding(Text(printable(remark), style="dark_orange"), (0, 0, 0, 2)))
