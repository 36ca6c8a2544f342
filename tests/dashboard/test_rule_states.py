"""The list of the rules that concern a run, as its page draws it."""

import asyncio
import re

import pytest

from dashboard.components.rules.states import rule_states
from dashboard.html_text import html_text
from dashboard.pages.alert import alert_page
from dashboard.pages.run.page_data import read_run
from tests.live import eventually

RULE = {
    "name": "kl-high",
    "kind": "rule:kl-high",
    "severity": "critical",
    "stated": "kl > 1 for 3 steps",
    "state": "ok",
    "step": 9,
    "since_step": None,
    "observed_step": 9,
    "observed_value": 0.25,
}


def test_a_run_that_no_rule_concerns_shows_none():
    """Most runs have no rule, and need no empty list."""
    assert rule_states([]) == []


@pytest.mark.parametrize(
    ("fields", "label", "explanation"),
    [
        ({}, "ok", "newest value 0.25 at step 9"),
        ({"state": "firing", "since_step": 4}, "firing", "since step 4; newest value 0.25 at step 9"),
        ({"observed_value": 1.0000002}, "ok", "newest value 1.0000002 at step 9"),
        ({"observed_value": 1048577.0}, "ok", "newest value 1048577 at step 9"),
        ({"state": "pending", "since_step": 8}, "pending", "since step 8; newest value 0.25 at step 9"),
        (
            {"state": "no_data", "observed_step": 7, "observed_value": float("nan")},
            "not observed",
            "step 9 does not have its signal; newest value nan at step 7",
        ),
        (
            {"state": "no_data", "observed_step": None, "observed_value": None},
            "not observed",
            "step 9 does not have its signal; the rule knows no value of it",
        ),
        (
            {"state": "no_data"},
            "not observed",
            "step 9 has no value to compare with; newest value 0.25 at step 9",
        ),
        (
            {"state": "undecided", "observed_value": float("nan")},
            "undecided",
            "step 9 gives NaN, for which the condition cannot be decided; newest value nan at step 9",
        ),
        (
            {"state": "waiting", "step": None, "observed_step": None, "observed_value": None},
            "no step yet",
            "it has seen no step since it was made, changed or reset",
        ),
    ],
)
def test_each_state_is_named_with_what_is_missing(fields, label, explanation, texts):
    """Words name the state, not colour alone; a state that is not observed or not decided is never called ok."""
    found = texts(rule_states([RULE | fields]))
    assert found == ["Rules", "All rules", "kl-high", label, "kl > 1 for 3 steps", explanation]


def test_what_fires_comes_first(texts):
    """Pending rules and rules that are not decided or not observed follow."""
    names = ["firing", "pending", "undecided", "no_data", "waiting", "ok"]
    rules = [RULE | {"name": state, "state": state} for state in reversed(names)]
    found = texts(rule_states(rules))
    assert sorted(names, key=found.index) == names


def test_many_rules_are_folded_but_for_those_that_fire_or_are_pending():
    """Fifty rules would push the figure off a phone; the title says how many are in which state, and none is hidden."""
    states = ["ok"] * 40 + ["no_data"] * 8 + ["pending", "firing"]
    rules = [RULE | {"name": f"rule-{number}", "state": state} for number, state in enumerate(states)]
    shown, _, folded = html_text(rule_states(rules)).partition("<details")
    assert re.findall("rule-[0-9]+", shown) == ["rule-49", "rule-48"]
    assert len(re.findall("rule-[0-9]+", folded)) == 48
    assert "8 not observed, 40 ok" in folded


def test_the_run_page_reads_the_states_of_its_rules(start_collector, texts):
    """The states are those of the collector's API at the newest step."""
    live = start_collector(tick_seconds=0.05)
    run_id = live.run(run="r", project="p", records=[{"step": 1, "scalars": {"kl": 0.5}}])
    rule = {"name": "kl-high", "condition": "threshold", "signal": "kl", "operator": ">", "value": 1.0}
    assert live.pool.request("POST", f"{live.url}/api/v1/rules", json={"rule": rule}).status == 200
    eventually(lambda: live.get(f"/runs/{run_id}/rules")["items"])
    live.send(run="r", project="p", records=[{"step": 2, "scalars": {"kl": "NaN"}}])
    eventually(lambda: live.get(f"/runs/{run_id}/rules")["items"][0]["step"] == 2)
    read = asyncio.run(read_run(live.url, run_id))
    assert "step 2 gives NaN, for which the condition cannot be decided; newest value nan at step 2" in texts(
        read.aside()
    )


def test_the_page_of_an_alert_of_a_rule_shows_the_state_of_that_rule(start_collector, texts):
    """Other rules are not shown; where the rule is deleted, the page shows none. Another run has no such alert."""
    live = start_collector(tick_seconds=0.05)
    run_id = live.run(run="r", project="p", records=[{"step": 1, "scalars": {"kl": 0.5}}])
    rule = {"condition": "threshold", "signal": "kl", "operator": ">", "value": 1.0}
    for name in ("kl-high", "another"):
        body = {"rule": rule | {"name": name, "value": 1.0 if name == "kl-high" else 9.0}}
        assert live.pool.request("POST", f"{live.url}/api/v1/rules", json=body).status == 200
    eventually(lambda: len(live.get(f"/runs/{run_id}/rules")["items"]) == 2)
    live.send(run="r", project="p", records=[{"step": 2, "scalars": {"kl": 3.0}}])

    def of_rule():
        return [each for each in live.get("/alerts", run_id=run_id)["items"] if each["kind"] == "rule:kl-high"]

    alert = eventually(of_rule)[0]
    shown = texts(asyncio.run(alert_page(live.url, alert["id"], run_id=run_id)))
    assert "since step 2; newest value 3 at step 2" in shown
    assert "another" not in shown
    assert "No such alert" in texts(asyncio.run(alert_page(live.url, alert["id"], run_id="other")))
    for each in live.get("/rules")["items"]:
        assert live.pool.request("DELETE", f"{live.url}/api/v1/rules/{each['id']}").status == 200
    eventually(lambda: of_rule()[0]["state"] == "resolved")
    assert "Rules" not in texts(asyncio.run(alert_page(live.url, alert["id"])))
