"""Every change is in the audit log, with its author, its time and its content; no key is in any log or answer."""

import logging

from monitor_server.access.route_scopes import ROUTES
from monitor_server.commands.main import main
from tests.databases import sqlite_only
from tests.live import eventually
from tests.monitor_server.access.conftest import Guarded

# They change nothing that is stored of others: what trainers send, the sign-in of a browser, the dashboard's questions.
NO_CHANGES = {
    ("POST", "/api/v1/ingest"),
    ("POST", "/api/v1/session"),
    ("DELETE", "/api/v1/session"),
    ("POST", "/api/v1/rules/dry-run"),
    ("POST", "/api/v1/notifications/check"),
    ("POST", "/api/v1/retention/preview"),
    ("POST", "/_dash-update-component"),
}
# Other files test these: `test_operation.py`, `test_reload.py` and `test_saved_settings.py` of notifications,
# `test_links.py` of action_links.
RECORDED_ELSEWHERE = {
    # `test_rules_api.py` of rules
    ("POST", "/api/v1/rules"),
    ("PUT", "/api/v1/rules/{rule_id}"),
    ("DELETE", "/api/v1/rules/{rule_id}"),
    ("POST", "/api/v1/rules/apply"),
    ("POST", "/api/v1/notifications/channels/{name}/test"),
    ("POST", "/api/v1/notifications/reload"),
    ("PUT", "/api/v1/notifications/settings"),
    ("POST", "/api/v1/notifications/settings/versions/{version}/restore"),
    ("POST", "/api/v1/notifications/links/end"),
    ("POST", "/act/{token:path}"),
}


def entries(guarded, key):
    """Return author, action and detail of each entry, the oldest first."""
    items = guarded.ask("GET", "/api/v1/audit", key).json()["items"]
    return [(item["by"], item["action"], item["target"]) for item in reversed(items)]


def test_every_change_names_its_author(guarded):
    """A key cannot write in the name of another: the name that it gives itself stands before its own name."""
    admin = guarded.key("admin", name="root")
    operator = guarded.key("operate", project="ours", name="night shift")
    run = guarded.send(admin, page=1.0)
    (alert,) = guarded.ask("GET", "/api/v1/alerts", operator).json()["items"]
    body = {"by": "root", "note": "seen"}
    acknowledged = guarded.ask("POST", f"/api/v1/alerts/{alert['id']}/ack", operator, body=body).json()
    assert acknowledged["acknowledged_by"] == "root (night shift)"
    assert guarded.ask("POST", f"/api/v1/runs/{run}/reset", operator, body={}).status == 200
    assert guarded.ask("DELETE", f"/api/v1/runs/{run}?force=true", admin).status == 200
    made = guarded.ask("POST", "/api/v1/keys", admin, body={"name": "t", "scope": "ingest"}).json()
    guarded.ask("DELETE", "/api/v1/keys/t", admin)
    assert entries(guarded, admin)[2:] == [
        ("root (night shift)", "alert.acknowledge", alert["id"]),
        ("night shift", "run.reset", run),
        ("root", "run.delete", run),
        ("root", "key.create", made["id"]),
        ("root", "key.revoke", made["id"]),
    ]
    (newest,) = guarded.ask("GET", "/api/v1/audit?limit=1", admin).json()["items"]
    assert (newest["detail"], newest["project"]) == ("t", None)


def test_what_people_write_is_in_the_log_until_its_run_is_deleted(guarded):
    """The entry has the run and the kind of the alert; the author and the time stay."""
    admin = guarded.key("admin", name="root")
    run = guarded.send(admin, page=1.0)
    (alert,) = guarded.ask("GET", "/api/v1/alerts", admin).json()["items"]
    path = f"/api/v1/alerts/{alert['id']}"
    guarded.ask("POST", f"{path}/ack", admin, body={"note": "my run\nis fine"})
    guarded.ask("POST", f"{path}/comments", admin, body={"text": "lr was 1e-3"})
    guarded.ask("PATCH", f"/api/v1/runs/{run}", admin, body={"title": "Über", "tags": ["b", "a"], "archived": True})
    guarded.ask("POST", f"{path}/actions", admin, body={"action": "stop", "note": "it is lost"})
    guarded.ask("POST", f"/api/v1/runs/{run}/reset", admin, body={})
    items = guarded.ask("GET", "/api/v1/audit?limit=5", admin).json()["items"]
    assert [item["detail"] for item in reversed(items)] == [
        f"run {run}: scripted: my run\\nis fine",
        f"run {run}: scripted: lr was 1e-3",
        f'run {run}: archived true; tags ["a", "b"]; title "Über"',
        f"run {run}: asked for, about alert {alert['id']}: it is lost",
        "tried again, where it was quarantined",
    ]
    assert guarded.ask("DELETE", f"/api/v1/runs/{run}?force=true", admin).status in (200, 202)

    def details():
        said = {"alert.acknowledge", "alert.comment", "run.label", "run.stop"}
        items = guarded.ask("GET", "/api/v1/audit", admin).json()["items"]
        return [item["detail"] for item in items if item["action"] in said]

    eventually(lambda: details() == ["of a deleted run"] * 4)


def test_an_administrator_of_a_project_reads_its_entries(guarded):
    """The administrator does not read the entries of other projects."""
    guarded.key("admin", project="theirs")
    ours = guarded.key("admin", project="ours")
    (entry,) = guarded.ask("GET", "/api/v1/audit", ours).json()["items"]
    assert entry["project"] == "ours"


def test_without_keys_changes_are_recorded_by_what_people_call_themselves(guarded, capsys):
    """The command prints them."""
    run = guarded.send(None, page=1.0)
    (alert,) = guarded.ask("GET", "/api/v1/alerts").json()["items"]
    body = {"by": "ann", "note": ""}
    acknowledged = guarded.ask("POST", f"/api/v1/alerts/{alert['id']}/ack", body=body).json()
    assert acknowledged["acknowledged_by"] == "ann"
    guarded.ask("POST", f"/api/v1/runs/{run}/reset", body={})
    assert entries(guarded, None) == [("ann", "alert.acknowledge", alert["id"]), ("somebody", "run.reset", run)]
    assert main(["audit", "--url", guarded.live.url]) == 0
    assert "alert.acknowledge" in capsys.readouterr().out


def test_what_retention_removes_is_recorded(start_collector, scripted, clock):
    """A run that the retention settings delete has its own entry."""
    guarded = Guarded(start_collector(engine=scripted, clock=clock, run_days=1.0, retention_seconds=0.05))
    run = guarded.send(None)
    clock.now += 2 * 86_400
    eventually(lambda: ("retention", "run.delete", run) in entries(guarded, None))


def test_old_entries_are_removed_and_old_silences_with_them(start_collector, scripted, clock):
    """Entries older than the days of the settings are removed; younger ones stay."""
    guarded = Guarded(start_collector(engine=scripted, clock=clock, audit_days=10.0, retention_seconds=0.05))
    made = guarded.ask("POST", "/api/v1/silences", body={"kind": "plateau", "minutes": 1}).json()
    guarded.ask("POST", f"/api/v1/silences/{made['id']}/end", body={})
    clock.now += 9 * 86_400
    guarded.ask("POST", "/api/v1/silences", body={"kind": "truncation", "minutes": 1})
    clock.now += 2 * 86_400
    eventually(lambda: [action for _, action, _ in entries(guarded, None)] == ["silence.create"])
    eventually(
        lambda: [each["kind"] for each in guarded.ask("GET", "/api/v1/silences").json()["items"]] == ["truncation"]
    )


def test_every_route_that_changes_something_is_recorded(guarded):
    """A route that is added without an entry in the audit log fails here: closed by default."""
    admin = guarded.key("admin")
    run = guarded.send(admin, page=1.0)
    (alert,) = guarded.ask("GET", "/api/v1/alerts", admin).json()["items"]
    silence = guarded.ask("POST", "/api/v1/silences", admin, body={"kind": "plateau", "minutes": 1}).json()["id"]
    guarded.ask("POST", "/api/v1/keys", admin, body={"name": "old", "scope": "read"})
    view = guarded.ask("POST", "/api/v1/views", admin, body={"name": "old", "query": ""}).json()["id"]
    calls = {
        ("POST", "/api/v1/alerts/{alert_id}/ack"): ("alert.acknowledge", {}),
        ("POST", "/api/v1/alerts/{alert_id}/comments"): ("alert.comment", {"text": "t"}),
        ("POST", "/api/v1/alerts/{alert_id}/judgement"): ("alert.judge", {"is_right": True}),
        ("POST", "/api/v1/alerts/{alert_id}/actions"): ("run.stop", {"action": "stop"}),
        ("POST", "/api/v1/silences"): ("silence.create", {"kind": "plateau", "minutes": 1}),
        ("POST", "/api/v1/silences/{silence_id}/end"): ("silence.end", {}),
        ("POST", "/api/v1/views"): ("view.save", {"name": "v", "query": "sort=reward:desc"}),
        ("DELETE", "/api/v1/views/{view_id}"): ("view.delete", None),
        ("POST", "/api/v1/view"): ("view.show", {"address": "/"}),
        ("POST", "/api/v1/keys"): ("key.create", {"name": "new", "scope": "read"}),
        ("DELETE", "/api/v1/keys/{key}"): ("key.revoke", None),
        ("POST", "/api/v1/sample"): ("sample.play", None),
        ("POST", "/api/v1/sample/ablation"): ("sample.play", None),
        ("PUT", "/api/v1/retention"): (
            "retention.change",
            {"limits": {"record_days": 5.0}, "seen": {"record_days": None}},
        ),
        ("PATCH", "/api/v1/runs/{run_id}"): ("run.label", {"title": "t"}),
        ("POST", "/api/v1/runs/{run_id}/reset"): ("run.reset", {}),
        ("DELETE", "/api/v1/runs/{run_id}"): ("run.delete", None),
        ("DELETE", "/api/v1/projects/{name:path}"): ("project.delete", None),
    }
    changing = {route for route in ROUTES if route[0] != "GET" and route[0] != "HEAD"} - NO_CHANGES
    assert changing <= calls.keys() | RECORDED_ELSEWHERE
    for (method, path), (action, body) in calls.items():
        if (method, path) not in ROUTES:
            continue
        filled = path.replace("{alert_id}", alert["id"]).replace("{run_id}", run).replace("{silence_id}", silence)
        filled = filled.replace("{key}", "old").replace("{view_id}", view).replace("{name:path}", "ours")
        if path.startswith("/api/v1/projects"):
            guarded.send(admin, run="another")
        answer = guarded.ask(method, filled + ("?force=true" if "delete" in action else ""), admin, body=body)
        assert answer.status in (200, 202), (path, answer.data)
        assert entries(guarded, admin)[-1][1] == action, path


@sqlite_only
def test_no_key_is_in_a_log_or_an_error(guarded, caplog, capsys):
    """Every key that was made is looked for in every line that was logged and every answer that was given."""
    caplog.set_level(logging.DEBUG)
    answers = []
    admin = guarded.key("admin")
    for scope in ("ingest", "read", "operate", "admin"):
        key = guarded.key(scope, project="ours")
        run = guarded.send(admin, run=scope, page=1.0)
        asked = [
            ("GET", f"/api/v1/runs/{run}", None), ("GET", "/metrics", None), ("POST", "/api/v1/keys", {"name": key}),
            ("POST", "/api/v1/session", {"key": key, "more": key}), ("POST", "/api/v1/session", {"key": key}),
            ("POST", "/api/v1/ingest", {"run": 1}), ("GET", "/api/v1/keys", None), ("GET", "/api/v1/audit", None),
            ("GET", f"/api/v1/runs/{run}?{'x' * 100}", None), ("PUT", "/api/v1/runs", None),
        ]  # fmt: skip
        for method, path, body in asked:
            for sent in (key, key[:-1], key + "x"):
                answer = guarded.ask(method, path, sent, body=body)
                answers.append(answer.data.decode() + str(answer.headers))
    text = caplog.text + "".join(capsys.readouterr()) + "".join(answers)
    assert len(guarded.secrets) == 5
    assert not [secret for secret in guarded.secrets if secret.removeprefix("rlv_")[:-1] in text]
