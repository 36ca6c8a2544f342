"""Suspects against known causes: what the first alerts of a run name, and how that is counted."""

import shutil

import pytest

from benchmarks.detection.authored.suite import displacement_kinds, failure_kinds, fault_kinds, make_fault
from benchmarks.detection.causes import cases
from benchmarks.detection.causes.__main__ import main
from benchmarks.detection.causes.cases import Case, Twin
from benchmarks.detection.causes.known import KNOWN, LEFT_OUT, known_cause
from benchmarks.detection.causes.openings import MOST_ROWS, AlertOpening, name_suspects, opened_alerts
from benchmarks.detection.causes.tables import alert_kinds, answers, confusion, run_kinds, twin_table
from benchmarks.detection.induced.failures import FAILURES
from benchmarks.detection.induced.record import RECORDINGS
from monitor_server.detection.protocol import Severity
from monitor_server.detection.suspects import Suspect

INFO, WARNING, CRITICAL = Severity


def alert(row, kind, severity=WARNING, suspect=Suspect.POLICY, *, is_new=True):
    """Return an alert."""
    return AlertOpening(row, kind, severity, suspect, is_new)


RATE = Case(
    kind="fault/rate_rise-10",
    alerts=[
        alert(0, "plateau", INFO, Suspect.UNKNOWN),
        alert(1, "learning_rate_rise", WARNING, Suspect.OPTIMISER),
        alert(5, "likelihood_drift"),
        alert(6, "repetition"),
        alert(9, "death_spiral", CRITICAL),
    ],
)
SILENT = Case(kind="fault/rate_rise-3", alerts=[])
GRADER = Case(kind="fault/grader_random-1", alerts=[alert(3, "reward_signal_dead", INFO, Suspect.GRADER)])


def test_every_failing_kind_has_a_cause_with_a_reason_or_is_left_out_with_one():
    """Suite A's displacement, failures and faults, and suite D's failures; nothing else has a cause."""
    kinds = [kind for kind in (*displacement_kinds(), *failure_kinds(), *fault_kinds()) if kind not in LEFT_OUT]
    kinds += [failure.name for failure in FAILURES]
    for kind in kinds:
        assert Suspect.UNKNOWN not in known_cause(kind).suspects
        assert known_cause(kind).reason
    used = {"displacement", *(kind.partition("-")[0] for kind in kinds if not kind.startswith("displacement/"))}
    assert used == KNOWN.keys()
    assert {*LEFT_OUT} <= {*failure_kinds()}


def test_each_part_of_a_training_has_faults_of_its_own():
    """A verdict can be policy, environment, grader, optimiser or instrument, and each has its runs in suite A."""
    parts = {known_cause(kind).name for kind in (*displacement_kinds(), *fault_kinds())}
    assert parts == set(Suspect) - {Suspect.UNKNOWN}


def test_the_first_part_the_first_warning_the_first_page_and_most_alerts_may_name_different_parts():
    """Unknown is no part; two policy alerts outvote one of the optimiser's; a page may come last."""
    first, warning, page, most = name_suspects(RATE.alerts)
    assert (first.suspect, first.kind, first.rows) == (Suspect.OPTIMISER, "learning_rate_rise", 1)
    assert warning == first
    assert (page.kind, page.rows) == ("death_spiral", 9)
    assert (most.suspect, most.kind) == (Suspect.POLICY, "likelihood_drift")
    assert name_suspects([]) == [None, None, None, None]


def test_most_alerts_counts_new_ones_in_time_and_breaks_ties_by_the_first():
    """A late alert and one that only became more severe do not count; unknown is named if nothing else is."""
    alerts = [
        alert(2, "sampler_gap", suspect=Suspect.INSTRUMENT),
        alert(4, "repetition"),
        alert(5, "repetition", CRITICAL, is_new=False),
        alert(MOST_ROWS + 1, "truncation"),
    ]
    assert name_suspects(alerts)[3].suspect is Suspect.INSTRUMENT
    assert name_suspects([alert(1, "reward_fall", suspect=Suspect.UNKNOWN)])[3].suspect is Suspect.UNKNOWN


def test_rows_count_from_the_onset_and_alerts_before_it_do_not():
    """The learning rate of this run rises at its onset, and the alert opens in that row."""
    faulty, _ = make_fault("fault/rate_rise-40", 0)
    since = opened_alerts(faulty.observations, faulty.truth.onset)
    assert (since[0].kind, since[0].row) == ("learning_rate_rise", 0)
    assert all(found.row >= 0 for found in since)
    assert {found.kind for found in opened_alerts(faulty.observations)} >= {found.kind for found in since}


def test_an_alert_of_doubtful_numbers_names_the_instrument():
    """A likelihood with the wrong sign is found first; what else opens while it fires is not believed."""
    faulty, _ = make_fault("fault/likelihood_sign-1", 1)
    found = opened_alerts(faulty.observations)
    assert found[0].kind == "impossible_likelihood"
    assert {other.suspect for other in found} == {Suspect.INSTRUMENT}


def test_an_alert_that_becomes_more_severe_is_noted_and_is_not_new():
    """The rise of the learning rate warns at once, and is critical when it does damage."""
    faulty, _ = make_fault("fault/rate_rise-40", 0)
    rise = [found for found in opened_alerts(faulty.observations) if found.kind == "learning_rate_rise"]
    assert [(found.severity, found.is_new) for found in rise[:2]] == [(WARNING, True), (CRITICAL, False)]


def test_a_confusion_table_counts_each_suspect_by_the_part_that_was_set_to_fail():
    """Two runs of the optimiser, of which one has no alert; one of the grader without a warning."""
    first, warning, page, most = confusion([RATE, SILENT, GRADER], "T")
    header = list(first.header)
    rows = {row[0]: dict(zip(header, row, strict=True)) for row in first.rows}
    assert (rows["optimiser"]["optimiser"], rows["optimiser"]["no alert"]) == ("1", "1")
    assert rows["optimiser"][header[-1]].startswith("1 of 1 ")
    assert rows["all"]["runs"] == "3"
    assert {row[0]: row[-2] for row in warning.rows} == {"grader": "1", "optimiser": "1", "all": "2"}
    assert next(row for row in page.rows if row[0] == "optimiser")[-1].startswith("0 of 1 ")
    assert next(row for row in most.rows if row[0] == "all")[-1].startswith("1 of 2 ")


def test_a_second_right_answer_is_right():
    """Stale weights of a sampler are the instrument's or the optimiser's."""
    stale = Case(kind="sampler_drift-1", alerts=[alert(1, "ratio_tail", suspect=Suspect.OPTIMISER)])
    rows = answers([stale], "T", lambda case: case.kind).rows
    assert rows[0][:7] == ["sampler_drift-1", "first part named", "1", "1", "0", "0", "0"]
    assert run_kinds([stale], "T").rows[0][1:4] == ["instrument or optimiser", "1", "1 / 0 / 0 / 0"]


def test_kinds_of_alerts_are_judged_by_their_own_suspect():
    """The death spiral of a high learning rate is wrong, an alert without a suspect is not judged."""
    table = alert_kinds([RATE, SILENT, GRADER], "T")
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    assert rows["learning_rate_rise"]["suspect right"].startswith("1 of 1 ")
    assert rows["death_spiral"]["suspect right"].startswith("0 of 1 ")
    assert (rows["death_spiral"]["optimiser failed"], rows["death_spiral"]["policy failed"]) == ("1", "0")
    assert (rows["plateau"]["runs"], rows["plateau"]["suspect right"]) == ("1", "–")
    assert rows["reward_signal_dead"]["grader failed"] == "1"


def test_a_healthy_twin_is_warned_by_warnings_alone():
    """Information that names no part does not count, and none of the alerts may be lost."""
    twins = [Twin("fault/x", [alert(3, "plateau", INFO)]), Twin("fault/x", [alert(9, "likelihood_drift")])]
    assert [cell.partition(" [")[0] for cell in twin_table(twins).rows[0][1:4]] == ["1 of 2", "1 of 2", "0 of 2"]


def test_a_run_without_rows_since_its_onset_is_an_error():
    """The onset must lie in the run."""
    faulty, _ = make_fault("fault/zero_rate-0", 0)
    with pytest.raises(ValueError, match="onset"):
        opened_alerts(faulty.observations, 10_000)


@pytest.mark.slow
def test_the_command_writes_its_own_block(tmp_path, capsys, monkeypatch):
    """The page keeps its other blocks; the block names the command, the causes and both suites.

    A few kinds and recordings are enough: the tests above read the cause of each, and test_command.py runs each kind.
    """
    for kinds in (displacement_kinds, failure_kinds, fault_kinds):
        chosen = kinds()[::6]
        monkeypatch.setattr(cases, kinds.__name__, lambda chosen=chosen: chosen)
    page = tmp_path / "results.md"
    page.write_text("By hand.\n\n<!-- suite d -->\n\nkept\n\n<!-- end -->\n")
    few = tmp_path / "recordings"
    few.mkdir()
    for path in RECORDINGS.glob("grpo/grader_*.jsonl.gz"):
        shutil.copy(path, few)
    assert main(["--runs", "1", "--development", "--induced", str(few), "--write", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("By hand.\n\n<!-- suite d -->\n\nkept")
    assert f"python -m benchmarks.detection.causes --runs 1 --development --induced {few}" in text
    assert "Suite A: first warning" in text
    assert "Suite D, hooks, without the open seeds: first page" in text
    assert "Suspects in suite A" in capsys.readouterr().out
