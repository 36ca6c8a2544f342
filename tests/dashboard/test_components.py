"""Page elements from hand-written answers, compared as component trees."""

import json
import math
import re
from pathlib import Path

import pytest
from dash import html

from dashboard.components.alert.evidence import evidence_table
from dashboard.components.alert.judgement import MOST_FORMS, budget_lines, judgement_list
from dashboard.components.alert.listing import MOST_RESOLVED, alert_list
from dashboard.components.connect import WAYS
from dashboard.components.page_frame import message
from dashboard.components.responses.listing import left_out, response_controls
from dashboard.components.run.header import run_header
from dashboard.components.settings.retention_wording import describe_removals, find_changed_limits
from dashboard.components.settings.tables import retention_table
from dashboard.components.small_elements import badge, number, sparkline
from dashboard.components.values import plain
from dashboard.html_text import html_text
from dashboard.ids import responses as response_ids


def tree(component):
    """Return a component as plain JSON, to compare."""
    return json.loads(json.dumps(component, default=lambda held: held.to_plotly_json()))


def run(name, **given):
    return {
        "id": name,
        "project": "p",
        "name": name,
        "status": "running",
        "phase": "healthy",
        "attempt": 1,
        "last_step": 3,
        "last_seen": 100.0,
        "world_size": 1,
        "capability": "L2",
        "source": "",
        "alerts": 0,
        "sparkline": {"signal": "reward/mean", "values": [0.1, math.nan, 0.3]},
    } | given


def alert(run_id, severity="warning", **given):
    return {
        "id": f"{run_id}-{severity}",
        "run_id": run_id,
        "kind": "likelihood_drift",
        "severity": severity,
        "state": "firing",
        "phase": "decay",
        "opened_at": 50.0,
        "opened_step": 12,
        "severity_step": 12,
        "summary": "It falls.",
        "evidence": {"statistic": 5.31, "threshold": 4.0},
    } | given


def test_a_sparkline_states_gaps_as_null():
    """JSON has no NaN."""
    drawn = tree(sparkline([0.1, math.nan, math.inf], signal="reward/mean"))
    assert drawn["props"]["data-sparkline"] == "[0.1, null, null]"


def test_a_run_with_many_alarms_has_forms_for_those_that_are_not_judged():
    """The oldest one is listed, because only it and the newest are not judged; the list states how many others are."""
    alarms = [alert("r", id=str(number), opened_step=number) for number in range(MOST_FORMS + 10)]
    judged = {"is_right": True, "failed_at": None, "note": "", "by": "anna"}
    (listed,) = judgement_list(alarms, {str(number): judged for number in range(1, MOST_FORMS + 9)})
    text = html_text(listed)
    shown = [int(step) for step in re.findall("step ([0-9]+)</strong>", text)]
    assert shown == [0, *range(11, MOST_FORMS + 10)]
    assert "Were the alarms right? (2 below not judged)" in text
    assert "10 other alarms are not listed" in text
    (whole,) = judgement_list(alarms[:MOST_FORMS], {})
    assert "not listed" not in html_text(whole)


def test_a_budget_is_stated_only_where_a_warranty_is_in_force(texts):
    """With too few healthy runs every page opens and nothing is promised, so nothing is allowed or exceeded either."""
    spent = {"pages_allowed": 0.04, "pages_opened": 1, "steps_held_back": 0, "is_longer": True}
    early = texts(budget_lines({"is_in_force": False, "promise": "no warranty yet"} | spent))
    assert early == ["Budget of false pages", "no warranty yet", "1 page opened"]
    in_force = texts(budget_lines({"is_in_force": True, "promise": "one in 1,000"} | spent | {"pages_opened": 2}))
    assert in_force[2] == "2 pages opened; the budget allows 0.04 up to now"
    assert "longer than every healthy run" in in_force[3]


def test_numbers_keep_their_precision_and_their_names():
    """The browser rounds the numbers; the numbers that it receives are exact."""
    stated = [tree(number(value))["props"]["data-number"] for value in (0.1, math.nan, -math.inf, None)]
    assert stated == ["0.1", "NaN", "-Infinity", ""]


def test_a_badge_is_its_name_in_its_colour():
    """A colour never stands without a word."""
    assert tree(badge("phase", "decay")) == tree(html.Span("decay", className="badge phase", **{"data-phase": "decay"}))


def test_a_message_says_what_is_wrong_beside_the_longest_id(texts):
    """An address may hold thousands of letters."""
    said = texts(message("No such run", f"No run has the id {'a' * 9000}. It may have been deleted."))
    assert said[1] == f"No run has the id {'a' * 80}… It may have been deleted."


def test_evidence_begins_with_the_comparison(texts):
    """5.31 > 4 stands before everything else."""
    assert texts(evidence_table({"threshold": 4.0, "statistic": 5.31}))[:3] == ["5.31", " > ", "4"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([88, 97], "88 to 97"),
        (["entropy/mean", "grad/norm"], "entropy/mean, grad/norm"),
        ({"median": -0.291, "from_steps": [22, 61]}, "median −0.291, from steps 22 to 61"),
        (None, "none"),
        ([], "none"),
        (math.nan, "NaN"),
        (True, "yes"),
        (0.000123456, "0.0001235"),
    ],
)
def test_evidence_is_written_for_readers(value, expected):
    """Ranges, lists, nested values, nothing, not a number."""
    assert plain(value) == expected


def test_evidence_that_we_do_not_know_is_shown_all_the_same(texts):
    """A new detector may state new things."""
    assert texts(evidence_table({"drift_per_step": 0.25})) == ["drift per step", "0.25"]


def test_a_statistic_that_is_no_number_is_not_compared(texts):
    """It is neither above its threshold, nor below it, nor equal."""
    shown = texts(evidence_table({"statistic": math.nan, "threshold": 0.5}))
    assert shown == ["statistic", "NaN", "threshold", "0.5"]


def test_firing_alerts_stand_open_and_resolved_ones_folded(texts):
    """Gravest first; resolved below; pending not at all."""
    alerts = [
        alert("a"),
        alert("a", "critical", kind="death_spiral"),
        alert("a", id="past", state="resolved", resolved_step=20),
        alert("a", id="pending", state="pending"),
    ]
    parts = alert_list(alerts)
    cards = [part for part in parts if isinstance(part, html.Article)]
    assert [texts(card.children[0]) for card in cards] == [
        ["critical", "Death spiral"],
        ["warning", "Likelihood drift"],
    ]
    assert texts(parts[-1])[0] == "1 resolved"


def test_the_newest_resolved_alerts_are_listed_and_the_others_counted(texts):
    """A run that flaps for a day makes no page that grows for a day."""
    past = [
        alert("a", id=f"past-{step}", state="resolved", opened_step=step, resolved_step=step + 1)
        for step in range(MOST_RESOLVED + 7)
    ]
    shown = texts(alert_list(past)[-1])
    assert shown[0] == f"{MOST_RESOLVED + 7} resolved"
    newest = MOST_RESOLVED + 6
    first = next(text for text in shown if text.startswith("from step"))
    assert first == f"from step {newest} to {newest + 1}, in decay"
    assert shown.count("What explains it") == MOST_RESOLVED
    assert shown[-2:] == ["7 earlier ones are not listed: ", "/api/v1/alerts?run_id=a&state=resolved"]


def test_more_resolved_alerts_than_are_read_are_not_counted_as_all(texts):
    """A thousand are read; the firing one is older than these."""
    past = [alert("a", id=str(step), state="resolved", opened_step=step, resolved_step=step) for step in range(1000)]
    shown = texts(alert_list([*past, alert("a", opened_step=0)]))
    assert "Nothing fires." not in shown
    assert {"1,000 or more resolved", "950 or more earlier ones are not listed: "} <= set(shown)


def test_resolved_alerts_are_few_components():
    """Dash needs minutes to update a page with as many components as fifty alerts with their evidence have elements."""
    evidence = {f"part {number}": number for number in range(30)}
    past = [alert("a", id=str(step), state="resolved", resolved_step=step, evidence=evidence) for step in range(50)]
    assert json.dumps(tree(alert_list(past))).count('"namespace"') < 10
    firing = alert_list([alert("a", evidence=evidence)])
    assert json.dumps(tree(firing)).count('"namespace"') < 20


def test_a_run_without_alerts_says_so(texts):
    """Silence is stated."""
    assert texts(alert_list([])) == ["Alerts", "Nothing fires."]


@pytest.mark.parametrize("level", ["L0", "L1", "L2", "L3", "L4"])
def test_the_header_says_how_much_the_adapter_sees(level, texts):
    """The header shows the level that the run's records announce, and its meaning."""
    (stated,) = [text for text in texts(run_header(run("a", capability=level), [], {})[2]) if text.startswith(level)]
    assert len(stated) > len("L0: ")


def test_the_header_shows_values_that_were_observed_and_dashes_for_the_rest(texts):
    """An absent signal is not zero."""
    phases = [{"phase": "warmup", "from_step": 0, "to_step": 4}, {"phase": "healthy", "from_step": 5, "to_step": None}]
    series = {"reward/mean": {"signal": "reward/mean", "steps": [1, 2], "values": [0.1, 0.25]}}
    header = run_header(run("a"), phases, series)
    stated = {
        vital["props"]["children"][1]["props"]["data-signal"]: vital["props"]["children"][1]["props"]["data-number"]
        for vital in tree(header)[3]["props"]["children"]
    }
    assert stated["reward/mean"] == "0.25"
    assert stated["entropy/mean"] == ""
    assert texts(header[5]) == ["warmup", "0 to 4", "healthy", "5 to now"]


@pytest.mark.parametrize(("last_step", "severity"), [(7, "warning"), (9, "info")])
def test_the_header_says_which_share_of_the_ranks_the_newest_incomplete_step_has(last_step, severity, texts):
    """It is a warning while this step is the newest one; a run whose steps are all complete has no mark."""
    several = run("a", world_size=8, last_step=last_step)
    series = {"step/seen_frac": {"signal": "step/seen_frac", "steps": [3, 7], "values": [0.5, 0.75]}}
    (mark,) = [part for part in run_header(several, [], series)[1].children if "ranks seen" in str(part.children)]
    assert texts(mark) == ["75 % of 8 ranks seen at step 7"]
    assert tree(mark)["props"]["data-severity"] == severity
    assert not any("ranks seen" in text for text in texts(run_header(several, [], {})[1]))


@pytest.mark.parametrize(
    ("status", "phase", "steps"),
    [
        ("running", "collapsed", "5 to now"),
        ("finished", "collapsed", "5 to 9"),
        ("lost", "collapsed", "5 to 9"),
        ("running", "unknown", "5 to 9"),
    ],
)
def test_the_phase_of_a_run_that_is_not_processed_any_more_ends_with_its_last_step(status, phase, steps, texts):
    """Only a running run is in a phase now; one that cannot be processed has an unknown phase."""
    phases = [{"phase": "collapsed", "from_step": 5, "to_step": None}]
    header = run_header(run("a", status=status, phase=phase, last_step=9), phases, {})
    assert texts(header[5]) == ["collapsed", steps]


def test_a_running_run_whose_phase_cannot_be_known_is_in_it_now(texts):
    """Detection has found no phase by the signals of the run, which trains on; steps have separators as everywhere."""
    phases = [{"phase": "unknown", "from_step": 1200, "to_step": None}]
    assert texts(run_header(run("a", phase="unknown"), phases, {})[5]) == ["unknown", "1,200 to now"]


def test_the_project_of_a_run_leads_to_its_runs():
    """The link sets the filter of the fleet, whatever the name of the project has in it."""
    crumbs = tree(run_header(run("a", project="a & b"), [], {}))[0]["props"]["children"]
    assert [crumb["props"]["href"] for crumb in crumbs][1] == "/?project=a+%26+b"


def test_each_way_to_connect_a_trainer_has_the_address_and_a_page():
    """Each tab has the address that the reader sees; the page named below it exists, and names the same hook."""
    root = Path(__file__).parents[2]
    for way in WAYS:
        assert "http://collector:8600" in way.lines("http://collector:8600")
        page = (root / "docs" / way.page).read_text()
        for word in re.findall(r"trainer_hooks[\w.]*|RLVITALS_[A-Z]+|bootstrap install", way.template):
            assert word in page, f"{way.name}: {word} is not on docs/{way.page}"
    for way in WAYS[:2]:
        compile(way.lines("http://collector:8600"), "snippet", "exec")


def test_an_alert_of_a_rule_has_the_name_of_the_rule(texts):
    """The name is the one that its author wrote; kinds of detectors are words. Steps are spelled as everywhere."""
    shown = texts(alert_list([alert("r", kind="rule:kl_high", opened_step=12_000, severity_step=12_000)]))
    assert "Rule kl_high" in shown
    assert "since step 12,000 in decay" in shown
    past = alert("r", kind="entropy_collapse", state="resolved", opened_step=1000, severity_step=1, resolved_step=2000)
    assert {"Entropy collapse", "from step 1,000 to 2,000, in decay"} <= set(texts(alert_list([past])))
    assert "from step 1,000 until the run went back to step 900, in decay" in texts(
        alert_list([past | {"resolved_step": 900, "is_taken_back": True}])
    )


def test_a_silenced_alert_is_not_shown_as_one_that_notifies(texts):
    """Its card says so, as its own page does."""
    shown = texts(alert_list([alert("r", stage="silenced", silenced_until=None)]))
    assert shown[shown.index("silenced until ") + 1] == "it is resolved"


def test_an_alert_that_grew_graver_says_since_when(texts):
    """It was information from step 12 on and a warning from step 20 on: the card says both."""
    assert "since step 12 in decay, warning since 20" in texts(alert_list([alert("r", severity_step=20)]))
    assert "since step 12 in decay" in texts(alert_list([alert("r")]))


def test_an_alert_names_its_suspect_and_what_makes_its_numbers_doubtful(texts):
    """A card shows the part that is suspected, and the instrument first where another alert doubts the numbers."""
    shown = texts(alert_list([alert("r", suspect="policy", instrument_alerts=["instrument_gap", "sampler_gap"])]))
    assert {"suspect: ", "policy"} <= set(shown)
    assert "check the instrument first: instrument gap, sampler gap on this run" in shown
    calm = texts(alert_list([alert("r", suspect="policy", instrument_alerts=[])]))
    assert not [text for text in calm if "instrument" in text]


def limit(name, value, *, fixed="", saved_by=None):
    """A limit of retention."""
    return {"name": name, "value": value, "source": "default", "fixed": fixed, "saved_at": None, "saved_by": saved_by}


def test_retention_is_shown_with_who_or_what_sets_it(texts):
    """A limit that is not set keeps data for good."""
    limits = [
        limit("response_steps", 200, fixed="RLVITALS_RESPONSE_STEPS"), limit("run_days", None),
        limit("step_days", 30.5, saved_by="<b>ann</b>"), limit("record_steps", 1_234_567.0),
    ]  # fmt: skip
    shown = texts(retention_table(limits))
    assert shown[shown.index("RLVITALS_RESPONSE_STEPS") - 1] == "200 steps"
    assert shown[shown.index("nobody: the default") - 1] == "for good"
    assert shown[shown.index("<b>ann</b>") - 1] == "30.5 days"
    assert "1,234,567 steps" in shown


def test_what_a_limit_would_remove_is_asked_in_words():
    """A form that changes nothing asks nothing; an empty field brings the default back."""
    drawn = {"run_days": 30.0, "step_days": None, "thinned_steps": 50}
    assert find_changed_limits(drawn, {"run_days": 30, "step_days": None, "thinned_steps": 50, "other": 1}) == {}
    asked = find_changed_limits(drawn, {"run_days": 7, "step_days": None, "thinned_steps": None})
    assert asked == {"run_days": 7, "thinned_steps": None}
    removals = [{"name": "run_days", "removes": "runs", "runs": 1, "rows": 5_000, "is_complete": True}]
    removals += [{"name": "step_days", "removes": "steps", "runs": 0, "rows": 0, "is_complete": True}]
    seen = {"run_days": 30.0, "thinned_steps": 50}
    question = describe_removals(asked, seen, removals)
    assert question.startswith("a run that sends nothing, as a whole: 30 days, now 7 days; most steps")
    assert question.endswith(
        "50 steps, now the default. This removes 1 run as a whole, with 5,000 steps, within seconds. "
        "It cannot be undone. Save?"
    )
    assert "This removes nothing at present." in describe_removals(asked, seen, removals[1:])


@pytest.mark.parametrize("runs", [0, 2])
@pytest.mark.parametrize(
    ("removes", "stated"),
    [("records", "at least 7 raw records of"), ("responses", "at least 7 responses of"), ("runs", "7 steps or more")],
)
def test_a_count_that_was_ended_early_is_asked_as_the_least(removes, stated, runs):
    """A count that ended before it found a row is stated as "at least" too, because it is not zero."""
    removals = [{"name": "run_days", "removes": removes, "runs": runs, "rows": 7, "is_complete": False}]
    question = describe_removals({"run_days": 7}, {"run_days": None}, removals)
    assert stated in question
    assert "It cannot be undone. There is so much data that the collector has stopped counting. Save?" in question


def test_the_slider_of_responses_ends_at_the_newest_step():
    """It begins at the step of the address, which sets the other controls too; a run without a step has no slider."""
    controls = json.dumps(tree(response_controls({"to": "30"}, last_step=90)))
    assert '"max": 90' in controls
    assert '"value": 30' in controls
    asked = json.dumps(tree(response_controls({"order": "pairs", "correct": "false", "kind": "nonsense"})))
    assert [f'"value": "{value}"' in asked for value in ("pairs", "false", "all", "nonsense")] == [
        True,
        True,
        True,
        False,
    ]
    assert response_ids.STEP not in json.dumps(tree(response_controls({})))


def test_a_setting_of_an_address_that_cannot_be_used_is_named(texts):
    """The page shows what it would show without the setting, so that a reader must know that it was left out."""
    asked = {"from": "1.5", "to": "30", "kind": "q", "order": "pairs", "spread": "length", "correct": "maybe"}
    named = "from='1.5', kind='q', correct='maybe'"
    assert f"The address had settings that cannot be used and were left out: {named}." in texts(left_out(asked))
    assert left_out({"from": "0", "kind": "displaced", "colour": "mismatch", "correct": "all", "later": "x"}) == []


@pytest.mark.parametrize(("stated", "step"), [("90", 90), ("120", 120), ("²", None), ("-1", None), ("9" * 16, None)])
def test_a_step_of_an_address_is_a_whole_number(stated, step):
    """As texts, 90 would be above 120; a text that is no whole number sets no control."""
    first, last, slider = response_controls({"from": stated, "to": stated}, last_step=200).children[:3]
    assert (first.children[1].value, last.children[1].value) == (step, step)
    assert slider.children[1].value == (200 if step is None else step)
