"""Tables of suspects against known causes: confusion, by kind of run, by kind of alert, and of healthy twins."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from benchmarks.detection.causes.cases import Case, Twin
from benchmarks.detection.causes.known import KNOWN, LEFT_OUT, known_cause
from benchmarks.detection.causes.openings import MEASURES, MOST_ROWS, Naming, name_suspects
from benchmarks.detection.results_page.tables import Table, count_of
from monitor_server.detection.protocol import Severity
from monitor_server.detection.suspects import Suspect, suspect_of

__all__ = ["alert_kinds", "answers", "cause_table", "confusion", "run_kinds", "twin_table"]

Item = TypeVar("Item")

_PARTS = tuple(suspect for suspect in Suspect if suspect is not Suspect.UNKNOWN)


def cause_table() -> Table:
    """Return every cause with the suspects that are right answers, and why."""
    rows = [[kind, " or ".join(known.suspects), known.reason] for kind, known in KNOWN.items()]
    rows += [[kind, "left out", reason] for kind, reason in LEFT_OUT.items()]
    return Table(title="The causes, and the suspects that are right", header=("failure", "right", "reason"), rows=rows)


def confusion(cases: Iterable[Case], title: str) -> list[Table]:
    """Return for each measure how often each suspect is named where a part was set to fail.

    A second right answer counts as right, and stands in its own column.
    """
    found = [(known_cause(case.kind).suspects, name_suspects(case.alerts)) for case in cases]
    header = ("part set to fail", "runs", *Suspect, "no alert", "right, of those that name a part")
    tables = []
    for place, measure in enumerate(MEASURES):
        rows = []
        for part in _PARTS:
            own = [(right, named[place]) for right, named in found if right[0] is part]
            if own:
                rows.append([part, *_confused(own)])
        rows.append(["all", *_confused([(right, named[place]) for right, named in found])])
        tables.append(Table(title=f"{title}: {measure}", header=header, rows=rows))
    return tables


def run_kinds(cases: Iterable[Case], title: str) -> Table:
    """Return for each kind of run how often what is named is right, how soon, and which first warnings are wrong."""
    places = range(len(MEASURES))
    rows = []
    for kind, own in _grouped(cases, lambda case: case.kind).items():
        right = known_cause(kind).suspects
        named = [name_suspects(case.alerts) for case in own]
        warnings = [naming for _, naming, *_ in named if naming is not None]
        wrong = Counter(f"{w.suspect} by {w.kind}" for w in warnings if _answer(w, right) == "wrong")
        cells = [" / ".join(map(str, _answers((right, names[place]) for names in named))) for place in places]
        delay = f"{np.median([warning.rows for warning in warnings]):.0f}" if warnings else "–"
        instead = ", ".join(f"{what} {count}" for what, count in wrong.most_common(2))
        rows.append([kind, " or ".join(right), str(len(own)), *cells, delay, instead])
    header = ("kind", "right", "runs", *MEASURES, "rows to the first warning, median", "wrong first warnings")
    return Table(title=f"{title}: right / wrong / unknown / no alert", header=header, rows=rows)


def answers(cases: Iterable[Case], title: str, group: Callable[[Case], str]) -> Table:
    """Return for groups of runs how often what is named is right, wrong, unknown or absent."""
    rows = []
    for name, own in _grouped(cases, group).items():
        found = [(known_cause(case.kind).suspects, name_suspects(case.alerts)) for case in own]
        for place, measure in enumerate(MEASURES):
            right, wrong, unknown, none = _answers((suspects, named[place]) for suspects, named in found)
            rows.append(
                [name, measure, *map(str, (len(own), right, wrong, unknown, none)), count_of(right, right + wrong)]
            )
    header = ("runs of", "measure", "runs", "right", "wrong", "unknown", "no alert", "right, of those that name a part")
    return Table(title=title, header=header, rows=rows)


def alert_kinds(cases: Iterable[Case], title: str) -> Table:
    """Return for each kind of alert in how many runs it opens soon after the onset, and how often its suspect is right.

    The runs are also counted by the part that was set to fail. The suspect is that of the kind, whatever else fires. A
    run counts once for each kind.
    """
    opened: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        for kind in dict.fromkeys(alert.kind for alert in case.alerts if alert.row <= MOST_ROWS):
            opened[kind].append(case)
    rows = []
    for kind, own in sorted(opened.items()):
        suspect = suspect_of(kind)
        parts = Counter(known_cause(case.kind).name for case in own)
        right = sum(suspect in known_cause(case.kind).suspects for case in own)
        judged = "–" if suspect is Suspect.UNKNOWN else count_of(right, len(own))
        rows.append([kind, suspect, str(len(own)), *(str(parts[part]) for part in _PARTS), judged])
    header = ("alert", "suspect", "runs", *(f"{part} failed" for part in _PARTS), "suspect right")
    return Table(title=title, header=header, rows=rows)


def twin_table(twins: Sequence[Twin]) -> Table:
    """Return how many healthy twins of the faults have an alert that names a part, a warning or a page."""
    rows = []
    for fault, own in _grouped(twins, lambda twin: twin.fault).items():
        alerted = [twin for twin in own if any(suspect_of(alert.kind) is not Suspect.UNKNOWN for alert in twin.alerts)]
        warned, paged = (
            [twin for twin in own if _reaches(twin, least)] for least in (Severity.WARNING, Severity.CRITICAL)
        )
        kinds = Counter(alert.kind for twin in warned for alert in twin.alerts if alert.severity is not Severity.INFO)
        rows.append([fault, *(count_of(len(group), len(own)) for group in (alerted, warned, paged)), ", ".join(kinds)])
    header = ("fault", "a part is named", "warned", "paged", "kinds of warnings")
    return Table(title="Healthy twins of the faults, whose alerts are false", header=header, rows=rows)


def _confused(found: Sequence[tuple[Sequence[Suspect], Naming | None]]) -> list[str]:
    counts = Counter(None if naming is None else naming.suspect for _, naming in found)
    right, wrong, _, none = _answers(found)
    cells = [len(found), *(counts[suspect] for suspect in Suspect), none]
    return [*map(str, cells), count_of(right, right + wrong)]


def _answers(found: Iterable[tuple[Sequence[Suspect], Naming | None]]) -> tuple[int, int, int, int]:
    """Return how many are right, wrong, unknown, and without an alert."""
    counts = Counter(_answer(naming, right) for right, naming in found)
    return counts["right"], counts["wrong"], counts["unknown"], counts["none"]


def _answer(naming: Naming | None, right: Sequence[Suspect]) -> str:
    if naming is None:
        return "none"
    if naming.suspect is Suspect.UNKNOWN:
        return "unknown"
    return "right" if naming.suspect in right else "wrong"


def _reaches(twin: Twin, least: Severity) -> bool:
    return any(alert.severity.rank >= least.rank for alert in twin.alerts)


def _grouped(items: Iterable[Item], key: Callable[[Item], str]) -> Mapping[str, list[Item]]:
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
