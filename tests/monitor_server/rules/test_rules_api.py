"""Rules over the API: made, changed, tried, applied from a file; their alerts; and the reach of a key of a project."""

import dataclasses
import json

import pytest

from monitor_server.rules.definition import MAX_COMPARISONS
from tests.databases import sqlite_only
from tests.live import eventually
from tests.monitor_server.access.conftest import Guarded

VALUE = b'{"rule": {"name": "a", "condition": "threshold", "signal": "s", "operator": ">", "value": '
THRESHOLD = {"name": "kl", "condition": "threshold", "signal": "kl", "operator": ">", "value": 1.0}


@pytest.fixture
def live(start_collector, scripted, clock):
    return start_collector(engine=scripted, clock=clock, stall_minimum_seconds=10_000, tick_seconds=0.05)


@pytest.fixture
def two(start_collector, scripted):
    """Two projects with a run each, and a key with the scope operate for each."""
    guarded = Guarded(start_collector(engine=scripted, tick_seconds=0.05))
    guarded.admin = guarded.key("admin")
    guarded.ours, guarded.theirs = (guarded.key("operate", project=name) for name in ("ours", "theirs"))
    guarded.run_ours = guarded.send(guarded.admin, run="a", project="ours")
    guarded.run_theirs = guarded.send(guarded.admin, run="b", project="theirs")
    return guarded


def ask(live, method, path, body=None):
    headers = {"Content-Type": "application/json"}
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = live.pool.request(method, f"{live.url}/api/v1{path}", body=data, headers=headers)
    return answer.json() | {"status_code": answer.status}


def create(live, **fields):
    made = ask(live, "POST", "/rules", {"rule": THRESHOLD | fields, "by": "ann"})
    assert made["status_code"] == 200, made
    return made


def step(live, number, run="r", **signals):
    records = [{"step": number, "time": 1_000_000.0 + number, "scalars": signals}]
    return live.send(run=run, project="p", records=records)["run_id"]


def states(live, run_id):
    return {item["name"]: item["state"] for item in live.get(f"/runs/{run_id}/rules")["items"]}


def alerts(live, run_id, kind="rule:kl"):
    return [item for item in live.get("/alerts", run_id=run_id)["items"] if item["kind"] == kind]


def in_force(live, run_id, name="kl"):
    """Wait until the projector follows a rule: until then steps are evaluated by the rules before."""
    eventually(lambda: name in states(live, run_id))


def test_a_rule_becomes_an_alert_with_its_whole_life(live):
    """The alert has its arithmetic, and is acknowledged, silenced and resolved like those of the detectors."""
    run_id = step(live, 1, kl=0.5)
    made = create(live, for_steps=1, severity="critical", message="the policy runs away")
    assert (made["kind"], made["stated"], made["created_by"]) == ("rule:kl", "kl > 1 for 1 steps", "ann")
    in_force(live, run_id)
    for number, kl in ((2, 0.5), (3, 3.0), (4, 3.0)):
        step(live, number, kl=kl)
    (found,) = eventually(lambda: alerts(live, run_id))
    assert (found["severity"], found["opened_step"], found["state"]) == ("critical", 4, "firing")
    assert found["summary"] == "the policy runs away: kl > 1 for 1 steps (3 since step 3)"
    assert found["evidence"] == {
        "rule": "kl", "condition": "threshold", "signal": "kl", "stated": "kl > 1 for 1 steps", "statistic": 3.0,
        "threshold": 1.0, "since_step": 3, "value": 3.0,
    }  # fmt: skip
    assert states(live, run_id) == {"kl": "firing"}
    assert ask(live, "POST", f"/alerts/{found['id']}/ack", {"by": "ben", "note": "seen"})["stage"] == "acknowledged"
    step(live, 5, kl=3.0)
    step(live, 6, other=1.0)
    step(live, 7, kl=1.0)
    (resolved,) = eventually(lambda: [each for each in alerts(live, run_id) if each["state"] == "resolved"])
    assert resolved["resolved_step"] == 7
    changes = [entry["change"] for entry in live.get(f"/alerts/{found['id']}/history")["items"]]
    assert changes == ["resolved", "acknowledged", "opened"]
    step(live, 8, other=1.0)
    assert eventually(lambda: states(live, run_id) == {"kl": "no_data"})
    step(live, 9, kl="NaN")
    assert eventually(lambda: states(live, run_id) == {"kl": "undecided"})


def test_rules_are_listed_changed_and_deleted(live):
    """Each change is in the audit log; what states the same already is no change."""
    step(live, 1)
    made = create(live, project="p")
    assert live.get(f"/rules/{made['id']}") == {name: made[name] for name in made if name != "status_code"}
    same = ask(live, "PUT", f"/rules/{made['id']}", {"rule": made["rule"], "by": "ben"})
    assert (same["version"], same["updated_by"]) == (made["version"], "ann")
    changed = ask(live, "PUT", f"/rules/{made['id']}", {"rule": made["rule"] | {"value": 2.0}, "by": "ben"})
    assert changed["version"] > made["version"]
    assert (changed["rule"]["value"], changed["updated_by"], changed["created_by"]) == (2.0, "ben", "ann")
    assert [item["id"] for item in live.get("/rules", project="p")["items"]] == [made["id"]]
    assert live.get("/rules", project="q")["items"] == []
    create(live, name="second")
    first = live.get("/rules", limit=1)
    assert [item["rule"]["name"] for item in first["items"]] == ["second"]
    assert [item["id"] for item in live.get("/rules", limit=1, cursor=first["next"])["items"]] == [made["id"]]
    assert ask(live, "DELETE", f"/rules/{made['id']}")["status_code"] == 200
    gone = ask(live, "GET", f"/rules/{made['id']}")
    assert (gone["status_code"], gone["error"]) == (404, "UnknownRule")
    entries = live.get("/audit")["items"]
    assert [entry["action"] for entry in entries] == ["rule.delete", "rule.create", "rule.change", "rule.create"]
    assert entries[2]["detail"] == "kl: value: kl > 2"


def test_a_rule_that_is_switched_off_resolves_its_alert(live):
    """The run need not make another step."""
    run_id = step(live, 1, kl=0.0)
    made = create(live)
    in_force(live, run_id)
    step(live, 2, kl=2.0)
    assert eventually(lambda: alerts(live, run_id))[0]["state"] == "firing"
    off = ask(live, "PUT", f"/rules/{made['id']}", {"rule": made["rule"] | {"enabled": False}})
    assert off["rule"]["enabled"] is False
    eventually(lambda: alerts(live, run_id)[0]["state"] == "resolved")
    assert states(live, run_id) == {}


def test_a_signal_that_is_no_longer_recorded_is_found_by_the_clock(live, clock):
    """The run makes no step either, and is still running."""
    run_id = step(live, 1, kl=0.0)
    absence = {"name": "kl", "condition": "absence", "signal": "kl", "for_seconds": 60.0}
    assert ask(live, "POST", "/rules", {"rule": absence})["status_code"] == 200
    in_force(live, run_id)
    step(live, 2, kl=0.0)
    eventually(lambda: states(live, run_id) == {"kl": "ok"})
    clock.now += 61.0
    (found,) = eventually(lambda: alerts(live, run_id))
    assert found["summary"] == "kl is not recorded for 60 s (not since step 2)"
    step(live, 3, kl=0.0)
    eventually(lambda: alerts(live, run_id)[0]["state"] == "resolved")


def test_a_dry_run_says_when_a_rule_would_have_fired(live):
    """The answer has the attempts, the bounds and the state; nothing is written."""
    for number, kl in enumerate([0.0, 2.0, 2.0, 0.0, None, 3.0]):
        run_id = step(live, number, **({} if kl is None else {"kl": kl}))
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 5)
    tried = ask(live, "POST", "/rules/dry-run", {"run_id": run_id, "rule": THRESHOLD | {"project": "elsewhere"}})
    assert tried["status_code"] == 200, tried
    assert (tried["state"], tried["steps"], tried["observed"], tried["is_complete"]) == ("fired", 6, 5, True)
    assert [(each["fired_step"], each["resolved_step"]) for each in tried["episodes"]] == [(1, 3), (5, None)]
    assert tried["episodes"][0]["fired_at"] == 1_000_001.0
    part = ask(live, "POST", "/rules/dry-run", {"run_id": run_id, "rule": THRESHOLD, "from_step": 2, "to_step": 4})
    assert (part["first_step"], part["last_step"], part["episode_count"]) == (2, 4, 1)
    missing = ask(live, "POST", "/rules/dry-run", {"run_id": run_id, "rule": THRESHOLD | {"signal": "lk"}})
    assert (missing["state"], missing["observed"], missing["episodes"]) == ("no_data", 0, [])
    quiet = ask(live, "POST", "/rules/dry-run", {"run_id": run_id, "rule": THRESHOLD | {"value": 9.0}})
    assert quiet["state"] == "quiet"
    assert live.get("/rules")["items"] == []
    assert live.get("/alerts")["items"] == []


def test_applying_a_set_again_changes_nothing(live):
    """The answer names the created, changed and deleted rules; rules of others stay."""
    step(live, 1)
    by_hand = create(live, name="by-hand")
    rules = [THRESHOLD | {"name": name, "project": "p"} for name in ("one", "two")]
    first = ask(live, "POST", "/rules/apply", {"set": "team", "rules": rules})
    assert (first["created"], first["changed"], first["deleted"]) == (["one", "two"], {}, [])
    again = ask(live, "POST", "/rules/apply", {"set": "team", "rules": rules})
    assert (again["created"], again["changed"], again["deleted"], again["unchanged"]) == ([], {}, [], 2)
    versions = {item["rule"]["name"]: item["version"] for item in live.get("/rules")["items"]}
    changed = ask(live, "POST", "/rules/apply", {"set": "team", "rules": [rules[1] | {"value": 7.0, "for_steps": 3}]})
    assert (changed["changed"], changed["deleted"]) == ({"two": ["for_steps", "value"]}, ["one"])
    items = {item["rule"]["name"]: item for item in live.get("/rules")["items"]}
    assert items.keys() == {"by-hand", "two"}
    assert items["by-hand"]["version"] == versions["by-hand"]
    refused = ask(live, "PUT", f"/rules/{items['two']['id']}", {"rule": THRESHOLD})
    assert (refused["status_code"], refused["error"]) == (409, "RuleConflict")
    assert "change it in the file" in refused["detail"]
    taken = ask(live, "POST", "/rules/apply", {"set": "team", "rules": [THRESHOLD | {"name": "by-hand"}]})
    assert (taken["status_code"], taken["error"]) == (409, "RuleConflict")
    assert {item["rule"]["name"] for item in live.get("/rules")["items"]} == {"by-hand", "two"}  # all or nothing
    twice = ask(live, "POST", "/rules/apply", {"set": "team", "rules": [THRESHOLD, THRESHOLD]})
    assert (twice["status_code"], twice["error"]) == (422, "InvalidField")
    assert by_hand["file_set"] is None
    unnamed = ask(live, "POST", "/rules/apply", {"set": "Team", "rules": []})
    assert "body.set: must be at most 60 lower-case letters" in unnamed["detail"]


def test_the_set_of_the_collectors_own_file_comes_from_that_file_alone(live):
    """The API neither makes nor deletes rules of a set with that name."""
    for rules in ([], [THRESHOLD]):
        refused = ask(live, "POST", "/rules/apply", {"set": "collector", "rules": rules})
        assert (refused["status_code"], refused["error"]) == (409, "RuleConflict")
        assert "RLVITALS_RULES_FILE" in refused["detail"]
    assert live.get("/rules")["items"] == []


@sqlite_only
def test_a_collector_does_one_dry_run_at_a_time(live):
    """Another one is refused at once and in words, with the time after which to send it again; reads go on."""
    run_id = step(live, 1, kl=2.0)
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 1)
    url, body = f"{live.url}/api/v1/rules/dry-run", {"run_id": run_id, "rule": THRESHOLD}
    with live.app.state.collector.dry_runs.admit():
        answer = live.pool.request("POST", url, json=body)
        assert (answer.status, answer.json()["error"]) == (503, "Unavailable")
        assert "one at a time" in answer.json()["detail"]
        assert int(answer.headers["Retry-After"]) >= 1
        assert live.get(f"/runs/{run_id}")["last_step"] == 1
    for _ in range(3):  # each of them lets the next one in
        assert live.pool.request("POST", url, json=body).status == 200
    assert live.pool.request("POST", url, json=body | {"run_id": "nobody"}).status == 404
    assert live.pool.request("POST", url, json=body).status == 200


def test_the_number_of_rules_is_bounded(live):
    """The bounds are those of a project and of all projects; ten thousand in one body are refused as a whole."""
    rules = [THRESHOLD | {"name": f"r{number}", "project": "p"} for number in range(101)]
    over = ask(live, "POST", "/rules/apply", {"rules": rules})
    assert (over["status_code"], over["error"]) == (409, "RuleConflict")
    assert live.get("/rules")["items"] == []
    assert ask(live, "POST", "/rules/apply", {"rules": rules[:100]})["status_code"] == 200
    one_more = ask(live, "POST", "/rules", {"rule": rules[100]})
    assert (one_more["status_code"], one_more["error"]) == (409, "RuleConflict")
    assert create(live, name="of-all")
    short = [{"name": "r", "condition": "absence", "signal": "s", "for_steps": 1}] * 10_000
    assert ask(live, "POST", "/rules/apply", {"rules": short})["status_code"] == 422


@pytest.mark.parametrize(
    "body",
    [
        b'{"rule": {"name": "a", "condition": "threshold", "signal": "s", "operator": ">", "value": NaN}}',
        b'{"rule": {"name": "a", "condition": "threshold", "signal": "s", "operator": ">", "value": 1e999}}',
        VALUE + b"9" * 400 + b"}}",
        VALUE + b"9" * 9000 + b"}}",
        b'{"rule": {"name": "a", "condition": "threshold", "signal": "\\ud800", "operator": ">", "value": 1}}',
        b'{"rule": {"name": "a", "condition": "threshold", "signal": "s\\u0000", "operator": ">", "value": 1}}',
        b'{"rule": {"name": "<img src=x>", "condition": "threshold", "signal": "s", "operator": ">", "value": 1}}',
        b'{"rule": {"name": "a", "condition": "threshold", "signal": "s", "operator": "or 1", "value": 1}}',
        b'{"rule": {"condition": {"$gt": 1}}}',
        b'{"rule": [], "by": 1}',
        b'{"rule": null}',
        b"[" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused_in_words(sqlite_collector, body):
    """Never by a fault of ours, and nothing is stored."""
    live, before = sqlite_collector, sqlite_collector.get("/rules")
    for path in ("/rules", "/rules/dry-run"):
        answer = live.pool.request(
            "POST", f"{live.url}/api/v1{path}", body=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status in (400, 422), answer.data
        assert answer.json()["error"] in ("InvalidField", "MalformedBody")
    assert live.get("/rules") == before


def test_a_key_of_one_project_reaches_its_own_rules_only(two):
    """It neither sees, makes, changes, deletes nor tries rules on a run of another project."""
    made = two.ask("POST", "/api/v1/rules", two.theirs, body={"rule": THRESHOLD}).json()
    assert made["rule"]["project"] == "theirs"
    everywhere = two.ask("POST", "/api/v1/rules", two.admin, body={"rule": THRESHOLD | {"name": "all"}}).json()
    for rule_id in (made["id"], everywhere["id"], "nobody"):
        for method, body in (("GET", None), ("PUT", {"rule": THRESHOLD}), ("DELETE", None)):
            answer = two.ask(method, f"/api/v1/rules/{rule_id}", two.ours, body=body)
            assert (answer.status, answer.json()["error"]) == (404, "UnknownRule"), (method, rule_id)
    for query in ("", "?project=theirs", f"?run_id={two.run_theirs}"):
        assert two.ask("GET", f"/api/v1/rules{query}", two.ours).json() == {"items": [], "next": None}
    foreign = {
        "project": ({"project": "theirs"}, 403),
        "run": ({"run_id": two.run_theirs}, 404),
        "other": ({"condition": "comparison", "project": "ours", "other_run_id": two.run_theirs}, 404),
        "other in a rule of all": ({"condition": "comparison", "project": "theirs", "other_run_id": two.run_ours}, 403),
    }
    for name, (fields, status) in foreign.items():
        rule = THRESHOLD | fields
        for path, body in (("/rules", {"rule": rule}), ("/rules/apply", {"rules": [rule]})):
            answer = two.ask("POST", f"/api/v1{path}", two.ours, body=body)
            assert answer.status == status, (name, path, answer.data)
    for run_id, rule in (
        (two.run_theirs, THRESHOLD),
        (two.run_ours, THRESHOLD | {"condition": "comparison", "project": "ours", "other_run_id": two.run_theirs}),
    ):
        answer = two.ask("POST", "/api/v1/rules/dry-run", two.ours, body={"run_id": run_id, "rule": rule})
        assert (answer.status, answer.json()["error"]) == (404, "UnknownRun")
    assert two.ask("GET", f"/api/v1/runs/{two.run_theirs}/rules", two.ours).status == 404
    cross = THRESHOLD | {"condition": "comparison", "project": "ours", "other_run_id": two.run_theirs}
    assert two.ask("POST", "/api/v1/rules", two.admin, body={"rule": cross}).status == 404
    read = two.key("read", project="theirs")
    assert two.ask("GET", f"/api/v1/rules/{made['id']}", read).status == 200
    tried = two.ask("POST", "/api/v1/rules/dry-run", read, body={"run_id": two.run_theirs, "rule": THRESHOLD})
    assert tried.status == 200
    for method, path in (("POST", "/rules"), ("POST", "/rules/apply"), ("DELETE", f"/rules/{made['id']}")):
        assert two.ask(method, f"/api/v1{path}", read, body={"rule": THRESHOLD}).status == 403


def test_the_sets_of_a_project_are_its_own(two):
    """A key of one project does not delete the rules that another key has applied under the same name of a set."""
    two.ask("POST", "/api/v1/rules/apply", two.theirs, body={"set": "team", "rules": [THRESHOLD]})
    applied = two.ask("POST", "/api/v1/rules/apply", two.ours, body={"set": "team", "rules": []}).json()
    assert applied["deleted"] == []
    two.ask("POST", "/api/v1/rules/apply", two.admin, body={"set": "team", "rules": []})
    assert len(two.ask("GET", "/api/v1/rules", two.theirs).json()["items"]) == 1


def test_a_rule_of_a_run_is_deleted_with_its_run(live):
    """A new run of the same name has no rules."""
    run_id = step(live, 1, kl=0.0)
    create(live, run_id=run_id)
    in_force(live, run_id)
    live.send(run="r", project="p", records=[], end="finished")
    assert ask(live, "DELETE", f"/runs/{run_id}")["status_code"] in (200, 202)
    eventually(lambda: live.get("/rules")["items"] == [])

    def begins_anew():
        body = {"schema_version": 1, "run": "r", "project": "p", "records": [{"step": 1, "scalars": {"kl": 5.0}}]}
        return live.post(json.dumps(body).encode()).status == 200

    eventually(begins_anew)
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 1)
    assert states(live, run_id) == {}
    assert alerts(live, run_id) == []


def test_a_reset_lets_the_rules_of_a_run_begin_anew(live):
    """No value of a removed attempt is compared with a later one."""
    run_id = step(live, 1, kl=0.0)
    create(live, condition="change", before_steps=1)
    in_force(live, run_id)
    step(live, 3, kl=5.0)
    stray = {"step": 4, "scalars": {"kl": 0.0}}
    live.send(run="r", project="p", attempt=99, records=[stray])
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 4)
    assert ask(live, "POST", f"/runs/{run_id}/reset", {"attempt": 1})["status_code"] == 200
    eventually(lambda: states(live, run_id) == {"kl": "waiting"})
    step(live, 5, kl=5.0)
    eventually(lambda: states(live, run_id) == {"kl": "no_data"})
    assert alerts(live, run_id) == []
    step(live, 6, kl=7.0)
    (found,) = eventually(lambda: alerts(live, run_id))
    assert (found["opened_step"], found["evidence"]["baseline"]) == (6, 5.0)


def test_the_clock_does_not_concern_a_run_that_has_ended(live, clock):
    """It ends before its absence is due; the due time is forgotten, so that no tick looks at the run again."""
    rule = {"name": "kl", "condition": "absence", "signal": "kl", "for_seconds": 60}
    assert ask(live, "POST", "/rules", {"rule": rule})["status_code"] == 200
    run_id = step(live, 0, kl=1.0)
    in_force(live, run_id)
    step(live, 1, kl=1.0)

    def due(now):
        with live.app.state.collector.store.read() as repositories:
            return repositories.rules.due_runs(now=now, revision=0)

    eventually(lambda: due(clock.now + 61) == [run_id])
    live.send(run="r", project="p", end="finished")
    clock.now += 120
    eventually(lambda: not due(clock.now))
    assert not alerts(live, run_id)


def test_a_dry_run_compares_no_run_with_itself(live):
    """Live evaluation makes no such comparison, so the dry run would report alerts that never happen."""
    run_id = step(live, 1, kl=0.5)
    rule = THRESHOLD | {"condition": "comparison", "project": "p", "operator": "==", "other_run_id": run_id}
    refused = ask(live, "POST", "/rules/dry-run", {"run_id": run_id, "rule": rule})
    assert refused["status_code"] == 422
    assert "other_run_id must be another run" in refused["detail"]


def test_a_file_may_replace_one_comparison_by_another(live):
    """The file is checked by the rules that it leaves, and not by those in between."""
    others = [
        live.send(run=f"other{number}", project="p", records=[{"step": 1, "scalars": {"kl": 1.0}}])["run_id"]
        for number in range(MAX_COMPARISONS + 1)
    ]
    comparisons = [
        THRESHOLD | {"name": f"r{number}", "project": "p", "condition": "comparison", "other_run_id": other}
        for number, other in enumerate(others)
    ]
    assert ask(live, "POST", "/rules/apply", {"rules": comparisons[1:]})["status_code"] == 200
    no_comparison = THRESHOLD | {"name": f"r{MAX_COMPARISONS}", "project": "p"}
    applied = ask(live, "POST", "/rules/apply", {"rules": [*comparisons[:-1], no_comparison]})
    assert (applied["status_code"], applied["created"]) == (200, ["r0"])
    assert ask(live, "POST", "/rules/apply", {"rules": comparisons})["status_code"] == 409


@sqlite_only
def test_what_a_rule_states_has_all_digits(live):
    """Otherwise two different rules, and a change from one to the other, would read the same."""
    stated = [create(live, name=f"r{n}", value=value)["stated"] for n, value in enumerate((1234567.0, 1234568.0, 0.1))]
    assert stated == ["kl > 1234567", "kl > 1234568", "kl > 0.1"]
    assert create(live, name="long", for_seconds=1234567.5)["stated"] == "kl > 1 for 1234567.5 s"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_rule_that_this_version_cannot_read_is_listed_with_the_reason_and_can_be_ended(live, method):
    """A newer version has written it: it has no ``rule``, and the others are listed as ever."""
    newer, other = create(live), create(live, name="other")
    with live.app.state.collector.store.write() as repositories:
        stored = repositories.rules.find(newer["id"])
        repositories.rules.replace([dataclasses.replace(stored, definition={**stored.definition, "newer": 1})])
    items = {item["kind"]: item for item in live.get("/rules")["items"]}
    assert items["rule:kl"]["rule"] is None
    assert "this version cannot read it: newer is not known" in items["rule:kl"]["stated"]
    assert items["rule:other"]["rule"]["name"] == "other"
    body = {"rule": THRESHOLD, "by": "ann"} if method == "PUT" else None
    assert ask(live, method, f"/rules/{newer['id']}", body)["status_code"] == 200
    readable = {item["id"]: item["rule"] is not None for item in live.get("/rules")["items"]}
    assert readable == {other["id"]: True} | ({newer["id"]: True} if method == "PUT" else {})


@sqlite_only
def test_a_key_of_one_project_cannot_apply_more_rules_than_a_project_may_have(two):
    """The request is refused before any of the rules is looked up."""
    rules = [THRESHOLD | {"name": f"r{number}", "run_id": "unknown"} for number in range(101)]
    answer = two.ask("POST", "/api/v1/rules/apply", two.ours, body={"set": "s", "rules": rules, "by": "ann"})
    assert answer.status == 409
    assert "at most 100 rules can belong to a project with its runs, got 101" in answer.json()["detail"]


def test_a_rule_that_was_changed_since_it_was_read_is_not_overwritten(live):
    """The refusal names who was first; without a version the last one to write wins, as before."""
    made = create(live)

    def change(value, by, **fields):
        body = {"rule": made["rule"] | {"value": value}, "by": by} | fields
        return ask(live, "PUT", f"/rules/{made['id']}", body)

    changed = change(2.0, "ben", version=made["version"])
    assert changed["status_code"] == 200
    refused = change(3.0, "ann", version=made["version"])
    assert (refused["status_code"], refused["error"]) == (409, "RuleConflict")
    assert "was changed by ben since it was read" in refused["detail"]
    assert change(3.0, "ann", version=changed["version"])["rule"]["value"] == 3.0
    assert change(4.0, "ann")["rule"]["value"] == 4.0
    assert change(4.0, "ann", version="new")["status_code"] == 422
